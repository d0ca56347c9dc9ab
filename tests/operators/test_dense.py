from __future__ import annotations

import numpy as np
import pytest

from tests.layout import block
from tests.operators.harness import HOST, MACHINES, Built, assert_close, each_machine, normal
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.costs.cpu.products import dense_tile
from tvmconv.operators.dense import (
    block_flattened_weight,
    dense,
    pack_dense_bias,
    pack_dense_weight,
)

BIAS, RELU, ADD = EpilogueOp("bias"), EpilogueOp("relu"), EpilogueOp("add")


def build(rows, inputs, outputs, machine, epilogue=(BIAS, RELU)):
    tile = dense_tile(rows, inputs, outputs, machine)
    x, w, b = normal(rows, inputs), normal(inputs, outputs, seed=1), normal(outputs, seed=2)
    arrays = [x, pack_dense_weight(w, tile)]
    expected = x.astype(np.float64) @ w
    if BIAS in epilogue:
        arrays.append(pack_dense_bias(b, tile))
        expected = expected + b
    if ADD in epilogue:
        arrays.append(normal(rows, outputs, seed=3))
        expected = expected + arrays[-1]
    if RELU in epilogue:
        expected = np.maximum(expected, 0)

    def expression(*tensors):
        return dense(*tensors, outputs=outputs, tile=tile, epilogue=epilogue)

    return Built(expression, arrays, machine), expected


@each_machine
@pytest.mark.parametrize(
    "shape",
    [
        (1, 256, 1000),
        (1, 64, 10),
        (1, 8192, 10),
        (1, 33, 1),
        (3, 100, 77),
        (20, 64, 40),
        (29, 7, 5),
    ],
    ids=str,
)
def test_dense(shape, machine):
    built, expected = build(*shape, machine)
    assert_close(built()[0], expected, 5e-6)


@pytest.mark.parametrize("epilogue", [(), (BIAS,), (BIAS, ADD, RELU), (ADD,)], ids=str)
def test_epilogues(epilogue):
    built, expected = build(2, 48, 50, HOST, epilogue)
    assert_close(built()[0], expected, 5e-6)


def test_flattened_image_needs_no_reorder():
    machine = HOST
    x, w = normal(2, 20, 3, 4), normal(20 * 3 * 4, 30, seed=1)
    packed = block_flattened_weight(w, 20, 3, 4, machine.lanes)
    tile = dense_tile(2, packed.shape[0], 30, machine)
    built = Built(
        lambda t, weight: dense(t, weight, outputs=30, tile=tile),
        [block(x, machine.lanes, fill=5.0), pack_dense_weight(packed, tile)],
        machine,
    )
    assert_close(built()[0], x.reshape(2, -1).astype(np.float64) @ w, 5e-6)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_code_keeps_accumulators_in_registers(machine):
    built, _ = build(1, 512, 1024, machine)
    assert built.is_parallel
    assert built.code.count(r"vfmadd\w*")
    assert built.vector_instructions() > 16
    assert not built.code.marked_spills()
