"""The bound of a case: kernels are hardly faster, at the machine model's rates."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import helper

from tests.sweeps.draws import Case
from tvmconv.machines.record import Machine
from tvmconv.report.clock import clock_of


def bound_of(case: Case, results: list[tuple[int, ...]], item: int, machine: Machine) -> float:
    """Seconds that the machine model gives one case with results of ``item`` bytes an element.

    The longer of two times: bytes over the rate of their level of cache, and operations over the
    rate of whole vectors. Bytes are read and written once each.
    """
    operand_item = np.dtype(case.dtype).itemsize
    moved = case.operand_bytes + sum(prod(shape) for shape in results) * item
    rates = machine.rates
    levels = (
        (machine.l1d_bytes, rates.l1),
        (machine.l2_bytes, rates.l2),
        (machine.last_cache_bytes, rates.behind_l2),
    )
    rate = next((rate for size, rate in levels if moved <= size), rates.memory)
    operations = case.work if case.work is not None else case.operations * prod(results[0])
    vectors = operations * max(item, operand_item) / machine.vector_bytes
    cycles = max(moved / rate, vectors / rates.multiply_adds)
    return clock_of(machine).seconds(cycles)


def results_of(model: onnx.ModelProto) -> list[tuple[str, tuple[int, ...], int]]:
    """Name, shape and bytes of an element of each result of a model whose shapes are inferred."""
    return [
        (
            value.name,
            tuple(d.dim_value for d in value.type.tensor_type.shape.dim),
            helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize,
        )
        for value in model.graph.output
    ]
