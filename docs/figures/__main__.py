"""Draw the figures of the documents: ``python -m docs.figures``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docs.figures.diagrams import memory_layouts, pipeline, shared_object, winograd_flow
from docs.figures.latency import latency
from docs.figures.papers import direct_peak, im2win_cpu, im2win_gpu, int8_winograd
from docs.figures.plots import roofline, tile_error
from docs.figures.svg import DARK, LIGHT, Figure, Palette

FIGURES: dict[str, Callable[[Palette], Figure]] = {
    "latency": latency,
    "memory-layouts": memory_layouts,
    "paper-direct": direct_peak,
    "paper-im2win-cpu": im2win_cpu,
    "paper-im2win-gpu": im2win_gpu,
    "paper-int8-winograd": int8_winograd,
    "pipeline": pipeline,
    "roofline": roofline,
    "shared-object": shared_object,
    "tile-error": tile_error,
    "winograd-flow": winograd_flow,
}


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
