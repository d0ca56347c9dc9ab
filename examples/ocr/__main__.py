"""Read the text in a picture: ``python -m examples.ocr picture.png``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tvmconv.core.errors import TvmconvError

_INSTALL = (
    "Install the extra by: pip install '.[examples]'. "
    "On Debian and Ubuntu, OpenCV also needs: apt install libgl1 libglib2.0-0."
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.ocr", description=__doc__)
    parser.add_argument("picture", type=Path, nargs="?", help="a picture; by default one is drawn")
    parser.add_argument("-o", "--output", type=Path, default=Path("boxes.png"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=5, help="timed calls of each library")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except ImportError as error:
        print(f"ocr: {error}. {_INSTALL}", file=sys.stderr)
        return 1
    except (TvmconvError, OSError) as error:
        print(f"ocr: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    from examples.ocr.networks import LIBRARIES, Reader
    from examples.ocr.picture import draw_boxes, draw_page

    picture = options.picture or draw_page(Path("page.png"))
    readers = {name: Reader(name, options.threads) for name in LIBRARIES}
    print(f"building the networks for the shapes of {picture} ...")
    lines = {name: reader.read(picture) for name, reader in readers.items()}
    seconds: dict[str, dict[str, float]] = {name: {} for name in LIBRARIES}
    for _ in range(options.repeat):
        for name, reader in readers.items():
            reader.read(picture)
            for network, session in reader.sessions.items():
                known = seconds[name].get(network, float("inf"))
                seconds[name][network] = min(known, session.seconds)
    for _, text, score in lines["tvmconv"]:
        print(f"{score:.2f}  {text}")
    words = {name: [text for _, text, _ in found] for name, found in lines.items()}
    same = words["tvmconv"] == words["onnxruntime"]
    print(f"\nonnxruntime reads {'the same text' if same else 'other text'}")
    print(f"{'milliseconds, best':20}{'tvmconv':>10}{'onnxruntime':>14}{'ratio':>8}")
    for network in readers["tvmconv"].sessions:
        ours, other = (seconds[name][network] * 1e3 for name in LIBRARIES)
        print(f"{network:20}{ours:10.1f}{other:14.1f}{other / ours:8.2f}")
    draw_boxes(picture, [box for box, _, _ in lines["tvmconv"]], options.output)
    print(f"\nboxes are drawn in {options.output}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
