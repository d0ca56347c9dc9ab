"""Along which axis lines of a copy follow each other in the operand."""

from __future__ import annotations

import pytest
from tvm import te
from tvm.s_tir import Schedule

from tvmconv.tir.general.short_lines import neighbors


def found(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "float32"):
    x = te.placeholder(shape, dtype, name="x")
    result = tuple(shape[axis] for axis in order)

    def value(*place):
        return x[tuple(place[order.index(axis)] for axis in range(len(shape)))]

    schedule = Schedule(te.create_prim_func([x, te.compute(result, value, name="y")]))
    return neighbors(schedule.get(schedule.get_sblock("y")))


@pytest.mark.parametrize(
    "shape,order,dtype,expected",
    [
        ((80, 128, 4), (1, 0, 2), "float32", 0),
        ((5, 80, 128, 4), (0, 2, 1, 3), "float32", 1),
        ((80, 128, 256), (1, 0, 2), "int8", 0),
        # long lines, lines that follow each other in the result too, and no lines
        ((80, 128, 65), (1, 0, 2), "float32", None),
        ((80, 128, 4), (0, 1, 2), "float32", None),
        ((80, 128, 4), (1, 2, 0), "float32", None),
        ((), (), "float32", None),
    ],
)
def test_axis_of_neighboring_lines(shape, order, dtype, expected):
    assert found(shape, order, dtype) == expected
