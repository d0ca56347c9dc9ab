"""Draw the figures of the documents: ``python -m docs.figures``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docs.figures.latency import latency
from docs.figures.svg import DARK, LIGHT, Figure, Palette

FIGURES: dict[str, Callable[[Palette], Figure]] = {"latency": latency}


def drawn() -> dict[Path, str]:
    """Return each figure's file and text, in both palettes."""
    return {
        Path(__file__).with_name(f"{name}-{palette.name}.svg"): draw(palette).render()
        for name, draw in FIGURES.items()
        for palette in (LIGHT, DARK)
    }


if __name__ == "__main__":
    for path, text in drawn().items():
        path.write_text(text)
        print(path.relative_to(Path.cwd()))
