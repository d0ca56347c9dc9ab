"""Products of two INT8 matrices that are computed at run time: ONNX's MatMulInteger.

The frontend writes them as a product of operands in INT32, each less its zero point. With zero
points a and b over k steps, ``(x - a) @ (y - b) = x @ y - a * (sum(y) - k * b) - b * sum(x)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tvmconv.graph.ir import Array, Graph, Node, Value, constant, make_node
from tvmconv.graph.quantized.scales import EIGHT_BITS, FLIP
from tvmconv.machines.multiply import Multiply, multiply_of_bytes, multiply_of_shorts
from tvmconv.machines.record import Machine
from tvmconv.operators.byte_products import SHIFT, is_byte_product

# ``args`` are both matrices, and the zero points in the attribute ``zero_points``, in this order
BYTE_PRODUCT = "tvmconv.byte_product"


@dataclass(frozen=True)
class _Operand:
    """A matrix of bytes, and its zero point in INT32, None for 0."""

    value: Value
    zero_point: Value | None = None


def multiply_of_run_time_bytes(machine: Machine) -> Multiply | None:
    """The exact dot product of run-time bytes or shorts; None where a CPU has no instruction."""
    found = multiply_of_bytes(machine)
    if found.element != found.data or found.adds_pairs:
        found = multiply_of_shorts(machine)
    able = bool(found.features) and found.width > 1 and not machine.vector.scalable
    return found if able else None


def fuse_byte_products(graph: Graph, machine: Machine) -> None:
    """Replace such products by :data:`BYTE_PRODUCT` nodes, in place."""
    multiply = multiply_of_run_time_bytes(machine)
    if multiply is None:
        return

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        operands = _operands(node)
        if operands is None:
            return [node]
        left, right = operands
        if not is_byte_product(left.value.dims, right.value.dims, multiply):
            return [node]
        made: list[Node] = []
        if multiply.element != "int16":
            left = _in_type(left, multiply.data, made)
            if right.value.dtype == "uint8":
                # the kernel flips the highest bit while it copies columns
                right = _Operand(right.value, _less(right.zero_point, SHIFT, made))
        left, flat = _flat(left, right.value, made)
        zeros = [operand.zero_point for operand in (left, right)]
        args = [left.value, right.value, *(zero for zero in zeros if zero is not None)]
        given = tuple(zero is not None for zero in zeros)
        shape = (*left.value.dims[:-1], right.value.dims[-1]) if flat else node.output.dims
        made.append(
            make_node(
                BYTE_PRODUCT, args, shape, dtype="int32", layer=node.layer,
                attrs={"zero_points": given},
            )
        )  # fmt: skip
        if flat:
            made.append(make_node("reshape", [made[-1].output], node.output.dims, dtype="int32"))
        mapping[node.output] = made[-1].output
        return made

    graph.forward(visit)
    graph.remove_dead()


def _operands(node: Node) -> tuple[_Operand, _Operand] | None:
    """Both operands of a product in INT32 that is not constant; None for other nodes."""
    if node.op != "matmul" or node.output.dtype != "int32":
        return None
    if any(not value.shape or len(value.dims) < 2 or not prod(value.dims) for value in node.inputs):
        return None
    left, right = (_operand(value) for value in node.inputs)
    if left is None or right is None:
        return None
    batch = max(len(value.dims) for value in node.inputs)
    for operand, axis in ((left, -1), (right, -2)):
        zero = operand.zero_point
        if zero is None:
            continue
        shape = zero.dims
        # one for each row of the left matrices, and for each column of the right ones
        if len(shape) > batch or (len(shape) >= -axis and shape[axis] != 1):
            return None
    return left, right


def _operand(value: Value) -> _Operand | None:
    if value.data is not None:
        return _constant(value.name, value.data)
    made, zero = value.producer, None
    if made is not None and made.op == "subtract":
        zero = made.args[1]
        if zero.shape is None or zero.dtype != "int32" or made.args[0].dims != value.dims:
            return None
        made = made.args[0].producer
    if made is None or made.op != "astype" or made.args[0].dtype not in EIGHT_BITS:
        return None
    if zero is not None and zero.data is not None and not zero.data.any():
        zero = None
    return _Operand(made.args[0], zero)


def _constant(name: str, data: Array) -> _Operand | None:
    """A constant matrix whose elements less their zero point are bytes."""
    for dtype in EIGHT_BITS:
        limits = np.iinfo(dtype)
        if limits.min <= data.min() and data.max() <= limits.max:
            return _Operand(constant(data.astype(dtype), name))
    return None


def _in_type(operand: _Operand, dtype: str, made: list[Node]) -> _Operand:
    """The same numbers in the type of the instruction's first factors."""
    value = operand.value
    if value.dtype == dtype:
        return operand
    made.append(make_node(FLIP, [value], value.dims, dtype=dtype))
    flipped, less = made[-1].output, SHIFT if dtype == "int8" else -SHIFT
    return _Operand(flipped, _less(operand.zero_point, less, made))


def _less(zero: Value | None, number: int, made: list[Node]) -> Value | None:
    """A zero point less a number; None for 0."""
    known = np.zeros((), np.int32) if zero is None else zero.data
    if zero is None or known is not None:
        values = np.asarray(known, np.int32) - np.int32(number)
        return constant(values) if values.any() else None
    made.append(
        make_node("subtract", [zero, constant(np.array(number, np.int32))], zero.dims,
                  dtype="int32")
    )  # fmt: skip
    return made[-1].output


def _flat(left: _Operand, right: Value, made: list[Node]) -> tuple[_Operand, bool]:
    """The rows of several matrices as one matrix, where they meet the same columns."""
    shape, zero = left.value.dims, left.zero_point
    if len(shape) == 2 or len(right.dims) > 2 or (zero is not None and prod(zero.dims) > 1):
        return left, False
    rows = make_node("reshape", [left.value], (prod(shape[:-1]), shape[-1]), dtype=left.value.dtype)
    made.append(rows)
    if zero is not None:
        made.append(make_node("reshape", [zero], (1, 1), dtype="int32"))
        zero = made[-1].output
    return _Operand(rows.output, zero), True
