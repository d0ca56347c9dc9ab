"""Draws operators that move, pick, repeat and interpolate elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tests.fuzz.draft import Draft, Undrawable, Value


def reshape(d: Draft) -> None:
    """To any shape of as many elements, written with 0 and -1."""
    x = d.source("Reshape")
    shape = list(x.shape)
    d.generator.shuffle(shape)
    if len(shape) > 1 and d.chance(0.5):
        at = d.generator.randrange(len(shape) - 1)
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    if d.chance(0.2):
        shape.insert(d.generator.randint(0, len(shape)), 1)
    written = [0 if i < x.rank and x.shape[i] == n and d.chance(0.3) else n
               for i, n in enumerate(shape)]  # fmt: skip
    if written and d.chance(0.4):
        written[d.generator.randrange(len(written))] = -1
    d.call("Reshape", [x], shape=np.array(written, np.int64))


def rank(d: Draft) -> None:
    """Flatten, Squeeze, Unsqueeze."""
    op = d.pick(("Flatten", "Squeeze", "Unsqueeze"))
    x = d.source(op)
    if op == "Flatten":
        d.call(op, [x], axis=d.generator.randint(-x.rank if d.opset >= 11 else 0, x.rank))
    elif op == "Squeeze":
        ones = [i for i, n in enumerate(x.shape) if n == 1]
        chosen = d.generator.sample(ones, d.generator.randint(0, len(ones)))
        d.call(op, [x], **({"axes": _signed(d, chosen, x.rank)} if chosen else {}))
    else:
        count = d.pick((1, 1, 2))
        chosen = d.generator.sample(range(x.rank + count), count)
        d.call(op, [x], axes=_signed(d, chosen, x.rank + count))


def _signed(d: Draft, axes: list[int], rank: int) -> list[int]:
    return [a - rank if d.opset >= 11 and d.chance(0.3) else a for a in axes]


def transpose(d: Draft) -> None:
    """Any order of the axes, or the reverse."""
    x = d.source("Transpose")
    order = d.generator.sample(range(x.rank), x.rank)
    d.call("Transpose", [x], **({"perm": order} if order and d.chance(0.9) else {}))


def concat(d: Draft) -> None:
    """One to four parts of different lengths, some of them the same."""
    x = d.source("Concat", 1)
    axis = d.generator.randrange(x.rank)
    parts = [x]
    for _ in range(d.generator.randrange(4)):
        shape = list(x.shape)
        shape[axis] = d.pick((1, 2, 5, shape[axis]))
        parts.append(x if d.chance(0.2) else d.operand(shape, x.dtype))
    d.generator.shuffle(parts)
    d.call("Concat", parts, axis=axis - x.rank if d.opset >= 11 and d.chance(0.3) else axis)


def split(d: Draft) -> None:
    """Into equal parts, or given ones; some of them are read."""
    x = d.source("Split", 1)
    axis = d.generator.randrange(x.rank)
    size, count = x.shape[axis], d.pick((1, 2, 2, 3))
    given: dict[str, Any] = {"axis": axis - x.rank if d.chance(0.2) else axis}
    if d.chance(0.6):
        cuts = sorted(d.generator.choices(range(size + 1), k=count - 1))
        given["split"] = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
        if 0 in given["split"]:
            raise Undrawable("an empty part")
    elif d.opset >= 18:
        given["num_outputs"] = count
        if -(-size // count) * (count - 1) >= size:
            raise Undrawable("an empty part")
    elif size % count:
        raise Undrawable("unequal parts")
    d.call("Split", [x], count, **given)


def slice_(d: Draft) -> None:
    """Bounds of any sign, also beyond the ends; steps forwards and backwards."""
    x = d.source("Slice", 1)
    axes = d.generator.sample(range(x.rank), d.generator.randint(1, x.rank))
    axes = axes if d.chance(0.3) else sorted(axes)
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.shape[axis]
        step = d.pick((1, 1, 1, 2, 3, -1, -2)) if d.opset >= 10 else 1
        low, high = sorted(d.generator.sample(range(size + 1), 2))
        first, last = (low, high) if step > 0 else (high - 1, low - 1)
        starts.append(first - size if d.chance(0.3) and first < size else first)
        if last < 0:
            last = d.pick((-size - 1, -(2**31)))
        elif last >= size and d.chance(0.5):
            last = d.pick((size + 3, 2**31 - 1, 2**63 - 1))
        ends.append(last - size if 0 <= last < size and d.chance(0.3) else last)
        steps.append(step)
    given: dict[str, Any] = {"starts": starts, "ends": ends}
    if axes != list(range(len(axes))) or d.chance(0.7):
        given["axes"] = _signed(d, axes, x.rank)
    if any(step != 1 for step in steps):
        given["steps"] = steps
    if d.opset >= 10:
        given = {name: np.array(value, np.int64) for name, value in given.items()}
    d.call("Slice", [x], **given)


def pad(d: Draft) -> None:
    """All modes, also cropping."""
    x = d.source("Pad", 1)
    mode = d.pick(("constant", "constant", "reflect", "edge", "wrap"))
    ends = []
    for n in (*x.shape, *x.shape):
        most = n - 1 if mode == "reflect" else n if mode == "wrap" else 3
        ends.append(d.pick((0, 0, d.generator.randint(0, min(most, 3)))))
    if mode == "constant" and d.chance(0.2):
        ends[d.generator.randrange(len(ends))] = -1
    given: dict[str, Any] = {"mode": mode, "pads": ends}
    if mode == "constant" and d.chance(0.5):
        whole = d.array((), x.dtype)
        given |= {"value": float(whole)} if d.opset < 11 else {"constant_value": whole}
    if d.opset >= 18 and d.chance(0.3):
        axes = d.generator.sample(range(x.rank), d.generator.randint(1, x.rank))
        given["axes"] = np.array(_signed(d, axes, x.rank))
        given["pads"] = [ends[a + side * x.rank] for side in (0, 1) for a in axes]
    if d.opset >= 11:
        given["pads"] = np.array(given["pads"], np.int64)
    d.call("Pad", [x], **given)


def repeat(d: Draft) -> None:
    """Expand, Tile."""
    op = d.pick(("Expand", "Tile"))
    x = d.source(op)
    if op == "Tile":
        d.call(op, [x], repeats=np.array([d.pick((1, 1, 2, 3)) for _ in x.shape], np.int64))
        return
    shape = [d.pick((1, 2, 4)) if n == 1 else d.pick((1, n)) for n in x.shape]
    lead = [d.pick((1, 2))] * d.pick((0, 0, 1))
    cut = 0 if lead else d.generator.randint(0, len(shape))
    d.call(op, [x], shape=np.array([*lead, *shape[cut:]], np.int64))


def gather(d: Draft) -> None:
    """By constant or computed places, from the front or the end."""
    x = d.source("Gather", 1)
    axis = d.generator.randrange(-x.rank, x.rank)
    size = x.shape[axis]
    low = -size if d.opset >= 11 else 0
    index = d.numbers.integers(low, size, d.shape(0, 2), dtype=d.pick(("int32", "int64")))
    places = d.constant(index)
    if d.chance(0.3):
        free = d.input(index.shape, "int64")
        (places,) = d.call("Mod", [free, d.constant(np.array(size))])
    d.call("Gather", [x, places], axis=axis)


def triangle(d: Draft) -> None:
    """Trilu."""
    x = d.source("Trilu", 2)
    given = {"k": np.array(d.generator.randint(-3, 3))} if d.chance(0.6) else {}
    d.call("Trilu", [x], upper=d.pick((0, 1)), **given)


def blocks(d: Draft) -> None:
    """DepthToSpace, SpaceToDepth."""
    op, b = d.pick(("DepthToSpace", "SpaceToDepth")), d.pick((1, 2, 3))
    dtype = d.dtype(d.allowed(op))
    n, c, h, w = (d.pick((1, 2, 3, 4)) for _ in range(4))
    if op == "DepthToSpace":
        modes = {"mode": d.pick(("DCR", "CRD"))} if d.opset >= 11 else {}
        d.call(op, [d.operand((n, c * b * b, h, w), dtype)], blocksize=b, **modes)
    else:
        d.call(op, [d.operand((n, c, h * b, w * b), dtype)], blocksize=b)


def resize(d: Draft) -> None:
    """All modes, by scales or to sizes, of planes or any axes."""
    if d.opset < 10:
        return _upsample(d)
    x = d.source("Resize", 2, 5) if d.chance(0.4) else d.source("Resize", 4, 4)
    mode = d.pick(("nearest", "linear", "cubic"))
    moved = list(range(2, x.rank)) if x.rank > 2 else [0, 1]
    if mode == "nearest" and d.chance(0.2):
        moved = d.generator.sample(range(x.rank), 2)
    rounded_between(d, x, mode)
    # runtimes interpolate along two axes, some along three or one
    moved = moved[:2] if mode == "cubic" else moved
    scales = [d.pick((0.5, 1.0, 1.5, 2.0, 2.0, 3.0, 0.7)) if i in moved else 1.0
              for i in range(x.rank)]  # fmt: skip
    scales = [s if n * s >= 1 else 1.0 for n, s in zip(x.shape, scales, strict=True)]
    sizes = [int(n * s) for n, s in zip(x.shape, scales, strict=True)]
    given: dict[str, Any] = {"mode": mode}
    if d.opset == 10:
        if mode == "cubic":
            raise Undrawable("no cubic")
        d.call("Resize", [x], scales=np.array(scales, np.float32), **given)
        return
    transform = d.pick(("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"))
    if d.opset >= 19 and d.chance(0.2):
        transform = "half_pixel_symmetric"
    given["coordinate_transformation_mode"] = transform
    if mode == "nearest":
        given["nearest_mode"] = d.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        given |= {"cubic_coeff_a": -0.5} if d.chance(0.4) else {}
        given |= {"exclude_outside": 1} if d.chance(0.3) else {}
    by_size = d.chance(0.5)
    if by_size:
        values: dict[str, Any] = {"sizes": np.array(sizes, np.int64)}
        longer = [i for i in moved if x.shape[i] > 1]
        if d.opset >= 18 and longer and d.chance(0.2):
            given["keep_aspect_ratio_policy"] = d.pick(("not_larger", "not_smaller"))
            moved = longer
            values["sizes"] = np.array([sizes[i] for i in moved], np.int64)
            given["axes"] = moved
    else:
        values = {"scales": np.array(scales, np.float32)}
    if d.opset < 13:
        # the region of interest has to be there, and scales next to sizes
        values = {"roi": np.zeros(0, np.float32), "scales": np.zeros(0, np.float32)} | values
    d.call("Resize", [x], **given, **values)


def rounded_between(d: Draft, x: Value, mode: str) -> None:
    """Interpolated integers: some are midway between two integers."""
    if mode != "nearest" and not x.dtype.startswith("float"):
        d.rounds = True
        if np.dtype(x.dtype).itemsize > 2:
            raise Undrawable("onnx's reference has places in float32, too little for so many bits")


def _upsample(d: Draft) -> None:
    x = d.source("Upsample", 4, 4)
    # onnxruntime truncates linear interpolation of integers, and onnx has no reference
    mode = d.pick(("nearest", "linear") if x.dtype.startswith("float") else ("nearest",))
    scales = [1.0, 1.0, *(d.pick((1.0, 2.0, 3.0, 1.5)) for _ in "hw")]
    given = scales if d.opset < 9 else np.array(scales, np.float32)
    d.call("Upsample", [x], mode=mode, scales=given)


def sample(d: Draft) -> None:
    """GridSample, AffineGrid."""
    if d.chance(0.3):
        theta = d.operand((2, 2, 3), "float32")
        size = np.array([2, 3, d.pick((1, 4)), d.pick((2, 5))], np.int64)
        d.call("AffineGrid", [theta], size=size, align_corners=d.pick((0, 1)))
        return
    x = d.operand((*(d.pick((1, 2, 3)) for _ in "nc"), *d.shape(2, 2)), "float32")
    grid = d.operand((x.shape[0], *d.shape(2, 2), 2), "float32")
    if prod(grid.shape) > 2000:
        raise Undrawable("too large")
    modes = ("bilinear", "nearest", "bicubic") if d.opset < 20 else ("linear", "nearest", "cubic")
    d.call("GridSample", [x, grid], mode=d.pick(modes), align_corners=d.pick((0, 1)),
           padding_mode=d.pick(("zeros", "border", "reflection")))  # fmt: skip


STEPS = (
    *(reshape, rank, transpose, concat, split, slice_, pad, repeat, gather, triangle, blocks),
    *(resize, resize, sample),
)
