"""The axes that are read off the loads and stores of a block."""

from __future__ import annotations

import pytest
import tvm_ffi
from tvm import s_tir, te

from tvmconv.tir.general.axes import collapsible_axes, contiguous_axis


def block(expression, *shapes):
    """The one block of a tensor expression of some inputs."""
    inputs = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    func = te.create_prim_func([*inputs, expression(*inputs)])
    found = []
    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, found.append))
    return next(one for one in found if one.name_hint != "root")


SHAPE = (2, 3, 4)
ELEMENTWISE = {
    "all axes": (lambda x: te.compute(SHAPE, lambda i, j, k: x[i, j, k] + 1.0), [SHAPE], 0),
    "a scalar beside": (
        lambda x, s: te.compute(SHAPE, lambda i, j, k: x[i, j, k] * s[0]),
        [SHAPE, (1,)],
        0,
    ),
    "a value for each of the first axis": (
        lambda x, s: te.compute(SHAPE, lambda i, j, k: x[i, j, k] * s[i]),
        [SHAPE, (2,)],
        1,
    ),
    "a part of the source's middle": (
        lambda x: te.compute(SHAPE, lambda i, j, k: x[i, j, k]),
        [(2, 5, 4)],
        1,
    ),
    "a part of an axis of symbolic size": (
        lambda x: te.compute(SHAPE, lambda i, j, k: x[i, j, k]),
        [(2, te.var("n"), 4)],
        1,
    ),
    "another order": (lambda x: te.compute(SHAPE, lambda i, j, k: x[i, k, j]), [(2, 4, 3)], 2),
    "an axis as a value": (
        lambda x: te.compute(SHAPE, lambda i, j, k: x[i, j, k] + j.astype("float32")),
        [SHAPE],
        2,
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_axes_that_may_be_fused(name):
    expression, shapes, first = ELEMENTWISE[name]
    assert collapsible_axes(block(expression, *shapes)) == first


def test_the_axis_of_contiguous_reads():
    """Two of three operands are contiguous along j, one along k."""
    k = te.reduce_axis((0, 8), "k")
    product = block(
        lambda a, b, c: te.compute((3, 5), lambda i, j: te.sum(a[i, k] * b[k, j] * c[j], axis=k)),
        (3, 8),
        (8, 5),
        (5,),
    )
    assert contiguous_axis(product).same_as(product.iter_vars[1].var)


def test_no_axis_without_reads():
    assert contiguous_axis(block(lambda: te.compute((4,), lambda i: te.const(0.0)))) is None
