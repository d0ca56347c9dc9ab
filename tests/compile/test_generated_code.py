"""No operator runs as a serial or scalar loop nest once it is large enough to matter."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, topi

from tests.operators.harness import MACHINES, Built, each_machine, normal
from tvmconv.operators.channels import concat_channels, shuffle_channels
from tvmconv.operators.layout import from_blocked, to_blocked
from tvmconv.operators.lrn import lrn_blocked
from tvmconv.operators.softmax import softmax


def blocked(channels, size, lanes):
    return np.zeros((1, -(-channels // lanes), size, size, lanes), np.float32)


def cases(lanes):
    image = blocked(64, 56, lanes)
    return {
        "add_relu": (lambda x, y: topi.nn.relu(x + y), [image, image]),
        "scale_by_channel": (
            lambda x, s: te.compute(x.shape, lambda n, b, h, w, c: x[n, b, h, w, c] * s[b, c]),
            [image, np.zeros(image.shape[1::3], np.float32)],
        ),
        "concat": (lambda x, y: concat_channels([x, y], [64, 64]), [image, image]),
        "concat_unaligned": (
            lambda x, y: concat_channels([x, y], [20, 64]),
            [blocked(20, 56, lanes), image],
        ),
        "shuffle": (lambda x: shuffle_channels(x, 60, 3), [blocked(60, 56, lanes)]),
        "lrn": (lambda x: lrn_blocked(x, 64, 5, 1e-4, 0.75, 1.0), [image]),
        "softmax": (softmax, [np.zeros((64, 1000), np.float32)]),
        "to_blocked": (lambda x: to_blocked(x, lanes), [np.zeros((1, 64, 56, 56), np.float32)]),
        "from_blocked": (lambda x: from_blocked(x, 60), [image]),
        "batch_matmul": (
            topi.nn.batch_matmul,
            [np.zeros((2, 49, 64), np.float32), np.zeros((2, 49, 64), np.float32)],
        ),
        "sum_of_rows": (lambda x: topi.sum(x, axis=1), [np.zeros((64, 1000), np.float32)]),
        "max_of_columns": (lambda x: topi.max(x, axis=0), [np.zeros((400, 640), np.float32)]),
    }


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize("name", cases(8))
def test_large_operators_use_vectors_and_threads(name, machine):
    expression, arrays = cases(machine.lanes)[name]
    built = Built(expression, arrays, machine)
    assert built.is_parallel
    if name in ("from_blocked", "to_blocked"):
        # four pixels at a time: a quarter or half of a register
        assert built.code.count("vinsertps|vunpcklps")
    else:
        assert built.vector_instructions() > 4
    assert built.library_calls() == []


def test_lane_moves_are_permutations():
    expression, arrays = cases(16)["shuffle"]
    built = Built(expression, arrays, MACHINES[1])
    assert built.code.count(r"vperm\w+")
    assert not built.code.count(r"vgather\w+")


@each_machine
def test_matrix_product_keeps_its_tile_in_registers(machine):
    x, y = normal(1, 64, 96), normal(1, 96, 64, seed=1)
    built = Built(lambda a, b: topi.nn.batch_matmul(a, b, transpose_b=False), [x, y], machine)
    np.testing.assert_allclose(built()[0], x.astype(np.float64) @ y, rtol=1e-4, atol=1e-4)
    assert built.code.count(r"vfmadd\w+") >= machine.vector_registers // 2
    assert not built.code.marked_spills()
