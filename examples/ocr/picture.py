"""Draws a page of text, so that the example needs no picture of yours."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

LINES = ("Invoice 20261126", "Convolution engine", "Total amount 42.50", "Thank you")


def draw_page(path: Path, lines: tuple[str, ...] = LINES) -> Path:
    """Write a white page with dark lines of text; returns its path."""
    image = Image.new("RGB", (640, 90 * len(lines) + 60), "white")
    canvas = ImageDraw.Draw(image)
    font = ImageFont.load_default(44)
    for row, line in enumerate(lines):
        canvas.text((50, 40 + 90 * row), line, fill=(20, 20, 40), font=font)
    image.save(path)
    return path


def draw_boxes(picture: Path, boxes: list[list[list[float]]], output: Path) -> None:
    """Write a copy of a picture with a red line around each box, given by its corners."""
    image = Image.open(picture).convert("RGB")
    canvas = ImageDraw.Draw(image)
    for box in boxes:
        canvas.polygon([(x, y) for x, y in box], outline="red", width=3)
    image.save(output)
