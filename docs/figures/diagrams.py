"""Diagrams of the documents: how a model is built, what a file holds, how algorithms use memory."""

from __future__ import annotations

from docs.figures.svg import Figure, Palette

_BUILD = (
    ("ONNX", "read, check,", "fold constants"),
    ("Relax", "one operator set", "for every exporter"),
    ("graph", "fuse, find INT8,", "plan layouts"),
    ("selection", "cheapest candidate", "of each layer"),
    ("schedule", "loops, vectors,", "register tiles"),
    ("TIR passes", "for this family", "of instructions"),
    ("LLVM", "object code", "of each kernel"),
    ("link", "kernels, plan", "and C runtime"),
)


def pipeline(palette: Palette) -> Figure:
    """Draw the way from an ONNX file to a shared object."""
    width, height, gap = 150, 74, 30
    figure = Figure(4 * width + 3 * gap + 20, 2 * height + 110, palette, "How a model is built")
    for index, (name, *lines) in enumerate(_BUILD):
        row, column = divmod(index, 4)
        x, y = 10 + column * (width + gap), 10 + row * (height + 36)
        figure.box(x, y, width, height)
        figure.text(x + width / 2, y + 24, name, anchor="middle", bold=True)
        for number, line in enumerate(lines):
            middle = x + width / 2
            figure.text(
                middle, y + 44 + 17 * number, line, anchor="middle", size=12, color=palette.muted
            )
        if column < 3:
            figure.line(
                x + width + 3, y + height / 2, x + width + gap - 3, y + height / 2, arrow=True
            )
    right, left, bend = 10 + 3 * (width + gap) + width / 2, 10 + width / 2, height + 28
    figure.line(right, height + 10, right, bend)
    figure.line(right, bend, left, bend)
    figure.line(left, bend, left, height + 43, arrow=True)
    figure.line(right, 2 * height + 46, right, 2 * height + 72, arrow=True)
    figure.text(right, 2 * height + 90, "model.so", anchor="middle", bold=True)
    return figure


_FILE = (
    ("kernels", "machine code of every kernel, each once", 0),
    ("execution plan", "C code: calls in order, offsets in the arena", 0),
    ("C runtime", "states, threads, CPU check, tvmconv.h", 0),
    ("weights", "packed for the kernels; mapped, not copied", 1),
    ("manifest", "JSON: inputs, outputs, target, decisions, checksum", 2),
)


def shared_object(palette: Palette) -> Figure:
    """Draw what a saved model consists of."""
    figure = Figure(660, 52 * len(_FILE) + 30, palette, "What is in model.so")
    for row, (name, text, series) in enumerate(_FILE):
        y = 10 + 52 * row
        figure.box(10, y, 170, 42, line=palette.series[series])
        figure.text(95, y + 26, name, anchor="middle", bold=True)
        figure.text(196, y + 26, text, color=palette.muted)
    return figure


def memory_layouts(palette: Palette) -> Figure:
    """Draw how direct, im2col and im2win use memory for a 3x3 kernel."""
    figure = Figure(760, 250, palette, "Memory of direct, im2col and im2win")
    rows = (
        ("direct", "reads the image itself", 6, 6, "1x the image, no workspace"),
        ("im2win", "each window of rows once; columns overlap", 4, 18, "about 3x the image"),
        ("im2col", "each window of rows and columns once", 16, 9, "about 9x the image"),
    )
    x = 20.0
    for name, text, high, wide, size in rows:
        cell = 9
        figure.text(x, 22, name, bold=True)
        for row in range(high):
            for column in range(wide):
                fill = palette.series[0] if _marked(name, row, column) else palette.series[1]
                figure.box(x + column * cell, 36 + row * cell, cell - 1, cell - 1, fill, fill)
        bottom = 36 + 16 * cell + 24
        figure.text(x, bottom, text, size=11, color=palette.muted)
        figure.text(x, bottom + 18, size, size=12)
        x += {"direct": 205, "im2win": 300}.get(name, 0)
    figure.text(
        20, 240, "A 6x6 image and a 3x3 kernel. One window is marked.", size=11, color=palette.muted
    )
    return figure


def _marked(name: str, row: int, column: int) -> bool:
    """Whether the cell belongs to the window at row 1, column 2 of the output."""
    if name == "direct":
        return 1 <= row < 4 and 2 <= column < 5
    if name == "im2win":
        return row == 1 and 6 <= column < 15
    return row == 6


def winograd_flow(palette: Palette) -> Figure:
    """Draw the stages of Winograd convolution with the cache level of each tensor."""
    figure = Figure(760, 190, palette, "Winograd convolution, stage by stage")
    stages = (
        ("input tile", "(m+r-1)² values", "memory or L2"),
        ("transform Bᵀ d B", "few additions", "registers"),
        ("products", "(m+r-1)² GEMMs", "L1 and L2"),
        ("transform Aᵀ y A", "additions, epilogue", "registers"),
        ("output tile", "m² values", "memory or L2"),
    )
    width, gap = 128, 25
    for index, (name, text, level) in enumerate(stages):
        x = 10 + index * (width + gap)
        main = index == 2
        figure.box(x, 56, width, 62, line=palette.series[0] if main else palette.line)
        figure.text(x + width / 2, 82, name, anchor="middle", bold=True, size=12)
        figure.text(x + width / 2, 102, text, anchor="middle", size=11, color=palette.muted)
        figure.text(x + width / 2, 138, level, anchor="middle", size=11, color=palette.muted)
        if index < len(stages) - 1:
            figure.line(x + width + 3, 87, x + width + gap - 3, 87, arrow=True)
    middle = 10 + 2 * (width + gap) + width / 2
    figure.text(
        middle, 18, "weights G g Gᵀ, transformed when the model is built", anchor="middle", size=11
    )
    figure.line(middle, 26, middle, 53, arrow=True)
    figure.text(
        10,
        172,
        "A strip of tiles passes all stages before the next strip, so its sums stay in the cache.",
        size=11,
        color=palette.muted,
    )
    return figure
