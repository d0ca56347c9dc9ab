"""Draws operators of sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fuzz.draft import Draft, Undrawable, Value

_SIZES = {1: (1, 30), 2: (1, 18), 3: (1, 8)}


def convolution(d: Draft) -> None:
    """Conv of one to three dimensions, and the operators fused with it."""
    x = image(d, "Conv")
    groups = groups_of(d, x.shape[1])
    window = window_of(d, x.shape[2:], kernels=(1, 1, 2, 3, 3, 5))
    kernel = window.pop("kernel_shape")
    # depthwise layers have one output channel or more for each input
    outputs = groups * d.pick((1, 1, 2) if groups == x.shape[1] else (1, 2, 3, 5, 8, 16))
    weight = d.operand((outputs, x.shape[1] // groups, *kernel), x.dtype)
    bias = [d.operand((outputs,), x.dtype)] if d.chance(0.5) else []
    shape = {"kernel_shape": kernel} if d.chance(0.5) else {}
    (y,) = d.call("Conv", [x, weight, *bias], group=groups, **shape, **window)
    _behind(d, y)


def _behind(d: Draft, y: Value) -> None:
    for _ in range(d.pick((0, 0, 1, 2, 3))):
        kind = d.pick(("Relu", "Sigmoid", "LeakyRelu", "HardSwish", "Tanh", "Clip", "Add", "scale"))
        if kind == "Add":
            operands = [y, d.operand(y.shape, y.dtype)]
            (y,) = d.call(kind, operands if d.chance(0.5) else operands[::-1])
        elif kind == "scale":
            row = (1, y.shape[1], *[1] * (y.rank - 2))
            (y,) = d.call(d.pick(("Mul", "Add")), [y, d.operand(row, y.dtype)])
        elif kind == "Clip":
            if d.opset < 11:
                (y,) = d.call(kind, [y], min=-0.5, max=6.0)
            else:
                bounds = {"min": d.array((), y.dtype)} if d.chance(0.7) else {}
                (y,) = d.call(kind, [y], **bounds)
        else:
            (y,) = d.call(kind, [y])


def transposed(d: Draft) -> None:
    """ConvTranspose, its output's size given in any of the ways there are."""
    x = image(d, "ConvTranspose", most=2)
    groups = groups_of(d, x.shape[1])
    spatial = x.rank - 2
    kernel = [d.pick((1, 2, 3, 3, 4)) for _ in range(spatial)]
    strides = [d.pick((1, 1, 2, 3)) for _ in range(spatial)]
    dilations = [d.pick((1, 1, 1, 2)) for _ in range(spatial)]
    weight = d.operand((x.shape[1], d.pick((1, 2, 5, 8)), *kernel), x.dtype)
    bias = [d.operand((weight.shape[1] * groups,), x.dtype)] if d.chance(0.5) else []
    given: dict[str, Any] = {"group": groups, "strides": strides, "dilations": dilations}
    kind = d.generator.random()
    if kind < 0.5:
        given["pads"] = [d.generator.randrange(k) for k in (*kernel, *kernel)]
    elif kind < 0.7:
        given["auto_pad"] = d.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if given["auto_pad"] != "VALID" and any(map(int.__lt__, kernel, strides)):
            raise Undrawable("the size is disputed")
    elif kind < 0.8:
        given["output_shape"] = [
            (n - 1) * s + (k - 1) * t + 1 - d.pick((0, 0, 1))
            for n, s, k, t in zip(x.shape[2:], strides, kernel, dilations, strict=True)
        ]
    if kind < 0.6 and d.chance(0.4):
        given["output_padding"] = [d.generator.randrange(s) for s in strides]
    d.call("ConvTranspose", [x, weight, *bias], **given)


def pool(d: Draft) -> None:
    """Pools of windows, in all ways of padding."""
    op = d.pick(("MaxPool", "AveragePool", "LpPool"))
    x = image(d, op)
    window = window_of(d, x.shape[2:], kernels=(1, 2, 3, 3, 4))
    schema = d.schema(op)
    if "dilations" not in schema.attributes:
        window.pop("dilations", None)
    if d.chance(0.3) and "ceil_mode" in schema.attributes:
        window["ceil_mode"] = 1
    if op == "AveragePool" and d.chance(0.5):
        window["count_include_pad"] = 1
    if op == "LpPool" and d.chance(0.7):
        window["p"] = d.pick((1, 2, 3))
    d.call(op, [x], **window)


def whole(d: Draft) -> None:
    """Pools of whole planes."""
    op = d.pick(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))
    given = {"p": d.pick((1, 2, 3))} if op == "GlobalLpPool" and d.chance(0.6) else {}
    d.call(op, [image(d, op)], **given)


def image(d: Draft, op: str, most: int = 3, dtype: str = "") -> Value:
    """Images of one, two or three dimensions: an existing value, or a new one."""
    allowed = [dtype] if dtype else d.allowed(op)
    known = [v for v in d.values if v.dtype in allowed and 3 <= v.rank <= most + 2]
    if known and d.chance(0.7):
        return d.pick(known[-2:])
    rank = min(d.pick((2, 2, 2, 1, 3)), most)
    low, high = _SIZES[rank]
    size = [d.generator.randint(low, high) for _ in range(rank)]
    channels = d.pick((1, 2, 3, 4, 6, 8, 12, 16, 17, 32))
    return d.input((d.pick((1, 1, 2, 3)), channels, *size), d.dtype(allowed))


def groups_of(d: Draft, channels: int) -> int:
    """1, all channels, or any divisor."""
    if not channels:
        raise Undrawable("nothing to divide")
    kind = d.generator.random()
    if kind < 0.5:
        return 1
    if kind < 0.75:
        return channels
    return d.pick([g for g in range(1, channels + 1) if channels % g == 0])


def window_of(d: Draft, size: Sequence[int], kernels: Sequence[int]) -> dict[str, Any]:
    """Attributes of a window that fits, with padding below the kernel."""
    rank = len(size)
    kernel = [d.pick(kernels) for _ in size]
    if d.chance(0.4):
        kernel = [kernel[0]] * rank
    given: dict[str, Any] = {"kernel_shape": kernel}
    dilations = [d.pick((1, 1, 1, 2, 3)) for _ in size] if d.chance(0.4) else [1] * rank
    strides = [d.pick((1, 1, 2, 3, 5)) for _ in size] if d.chance(0.6) else [1] * rank
    if dilations != [1] * rank or d.chance(0.2):
        given["dilations"] = dilations
    if strides != [1] * rank or d.chance(0.2):
        given["strides"] = strides
    kind = d.generator.random()
    spans = [(k - 1) * t + 1 for k, t in zip(kernel, dilations, strict=True)]
    if kind < 0.25:
        given["auto_pad"] = d.pick(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
        same = given["auto_pad"][:4] == "SAME"
        if same and (max(dilations) > 1 or any(map(int.__gt__, strides, kernel))):
            # the padding is disputed
            raise Undrawable("disputed")
        if same:
            return given
    elif kind < 0.7:
        given["pads"] = [d.generator.randrange(n) for n in (*kernel, *kernel)]
    pads = given.get("pads", [0] * (2 * rank))
    for i, n in enumerate(size):
        if n + pads[i] + pads[i + rank] < spans[i]:
            raise Undrawable("the window does not fit")
    return given


STEPS = (convolution, convolution, convolution, transposed, pool, pool, whole)
