"""Write the pages that come from code: ``python -m docs.generate``."""

from __future__ import annotations

from pathlib import Path

from docs.generate import benchmarks, c_api, cli, knobs, onnx_tests, operators, papers, targets
from tvmconv.machines.presets import MACHINES

REFERENCE = Path(__file__).parents[1] / "reference"


def pages() -> dict[Path, str]:
    """Return each page's file and text."""
    return {
        REFERENCE.parent / "benchmarks/index.md": benchmarks.page(),
        REFERENCE.parent / "benchmarks/papers.md": papers.page(),
        REFERENCE / "c-api.md": c_api.page(),
        REFERENCE / "cli.md": cli.page(),
        REFERENCE / "knobs.md": knobs.page(MACHINES["x86-64-v3"]),
        REFERENCE / "onnx-tests.md": onnx_tests.page(),
        REFERENCE / "operators.md": operators.page(),
        REFERENCE / "targets.md": targets.page(),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
        print(path.relative_to(Path.cwd()))
