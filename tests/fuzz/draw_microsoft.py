"""Draws operators of onnxruntime's operator set, which its optimizer and its tools write."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.frontend.microsoft_cases import CASES, Case
from tests.fuzz.draft import Draft, Undrawable, Value
from tests.fuzz.runtimes import results_of

_ROUNDING = ("DynamicQuantizeMatMul", "QAttention", "QLinear")
_SHAPES = ((1, 4, 5, 8), (2, 3, 4, 4), (1, 1, 7, 12))


def fused(d: Draft) -> None:
    """One node as onnxruntime writes it."""
    if d.opset < 12:
        raise Undrawable("parts of some operators are missing")
    case = d.pick(CASES)(d.numbers)
    if not case.domain and case.op == "LayerNormalization" and d.opset > 16:
        raise Undrawable("the operator set defines it")
    place(d, case)


def place(d: Draft, case: Case) -> None:
    """A case as a node of a draft."""
    operands = [
        None if array is None else _operand(d, np.asarray(array), free=i in case.keep)
        for i, array in enumerate(case.operands)
    ]
    node = helper.make_node(
        case.op,
        [operand.name if operand else "" for operand in operands],
        [d.name("v") if wanted else "" for wanted in case.outputs],
        d.name(case.op),
        domain=case.domain,
        **case.attrs,
    )
    known = {o.name: np.asarray(a) for o, a in zip(operands, case.operands, strict=True) if o}
    d.rounds |= case.op.startswith(_ROUNDING)
    try:
        made = results_of(node, known, d.empty())
    except Exception as error:  # any error of other runtimes: they do not compute it
        raise Undrawable(str(error)) from error
    d.place([node], [Value(name, array.shape, array.dtype.name) for name, array in made.items()])


def _operand(d: Draft, array: Any, *, free: bool) -> Value:
    """An operand like this one.

    Integers of 32 bits are indices or masks: computed ones are not smaller than these, so that no
    row is masked as a whole.
    """
    if not free:
        return d.constant(array)
    if array.dtype.name not in ("int32", "int64"):
        return d.operand(array.shape, array.dtype.name)
    if d.chance(0.4):
        return d.constant(array)
    count = np.array(array.max(initial=0) + 1, array.dtype)
    if array.ndim == 1 and array.size > 1:
        # the second part of a mask by ends and starts: no start is as large as an end
        count = np.where(np.arange(array.size) < array.size // 2, count, array + 1)
    operands = [d.input(array.shape, array.dtype.name), d.constant(count.astype(array.dtype))]
    (number,) = d.call("Mod", operands)
    return d.call("Max", [number, d.constant(array)])[0]


def on_gpus(d: Draft) -> None:
    """One node that onnxruntime computes on GPUs alone."""
    if d.opset < 9:
        raise Undrawable("no Erf")
    place(d, d.pick((_biased, _grouped, _grouped, _channels_last))(d))


def _biased(d: Draft) -> Case:
    op = d.pick(("BiasAdd", "BiasSplitGelu"))
    shape = (d.pick((1, 2)), d.pick((1, 3)), d.pick((2, 8)))
    operands = [d.array(s, "float32") for s in (shape, shape[-1:], shape)]
    return Case(op, operands[: 3 if op == "BiasAdd" else 2], keep=(0, 2))


def _grouped(d: Draft) -> Case:
    op = d.pick(("GroupNorm", "SkipGroupNorm"))
    shape = d.pick(_SHAPES)
    groups = d.pick((1, 2, 4))
    row = shape[-1:]
    operands = [d.array(s, "float32") for s in (shape, row, row)]
    if op == "SkipGroupNorm":
        skips = (shape, (shape[0], 1, 1, *row), (shape[0], *row))
        operands.append(d.array(d.pick(skips), "float32"))
        operands += [d.array(row, "float32")] if d.chance(0.5) else []
    attrs = {"groups": groups, "activation": d.pick((0, 1)), "channels_last": 1}
    attrs |= {"epsilon": 1e-3} if d.chance(0.4) else {}
    outputs = (1, d.pick((0, 1))) if op == "SkipGroupNorm" else (1,)
    return Case(op, operands, attrs, keep=(0, 3), outputs=outputs)


def _channels_last(d: Draft) -> Case:
    op = d.pick(("NhwcConv", "NhwcFusedConv"))
    shape = d.pick(_SHAPES)
    group = d.pick((1, shape[-1]))
    count = group * d.pick((1, 2))
    kernel = d.pick(((1, 1), (1, 2), (3, 3)))
    attrs: dict[str, Any] = {
        "group": group,
        "pads": [1, 1, 1, 1],
        "strides": d.pick(([1, 1], [2, 1])),
    }
    operands = [d.array(s, "float32") for s in (shape, (count, shape[-1] // group, *kernel))]
    operands += [d.array((count,), "float32")] if d.chance(0.5) else []
    if op == "NhwcFusedConv" and d.chance(0.5):
        attrs["activation"] = "Relu"
    return Case(op, operands, attrs)


def transposed(d: Draft) -> None:
    """The old name of FusedMatMul."""
    a, b = d.array((4, 5), "float32"), d.array((5, 6), "float32")
    flag = d.pick((0, 1))
    place(d, Case("TransposeMatMul", [a, b.T if flag else b], {"transB": flag, "alpha": 0.5}))


def quantized(d: Draft) -> None:
    """QuantizeLinear and DequantizeLinear, which had integers of 16 bits before ONNX's."""
    shape = d.shape(1, 4)
    axis = d.generator.randrange(len(shape))
    dtype = d.pick(("uint8", "int8", "uint16", "int16"))
    row = d.pick(((), (shape[axis],)))
    attrs = {"axis": axis} if row else {}
    step = np.log2(3 / np.iinfo(dtype).max).round()
    scale = np.exp2(step + d.numbers.integers(-1, 2, row)).astype(np.float32)
    zero = d.array(row, dtype)
    place(d, Case("QuantizeLinear", [d.array(shape, "float32"), scale, zero], attrs))
    place(d, Case("DequantizeLinear", [d.array(shape, dtype), scale, zero], attrs))


STEPS = (*(fused,) * 6, on_gpus, on_gpus, transposed, quantized)
