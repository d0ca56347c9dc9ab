"""Lists of shapes: which programs they make."""

from __future__ import annotations

import pytest

from tvmconv.cli.values import parse_shape_lists, parse_shapes
from tvmconv.core.errors import InputError, ModelError
from tvmconv.frontend.shape_lists import each_of, largest_first


def test_position_i_of_each_list_makes_program_i() -> None:
    shapes = {"x": [(1, 3), (1, 5)], "width": [7, 9], "y": (2, 2), "depth": 4}
    assert each_of(shapes, ["x", "y"]) == [
        {"x": (1, 3), "width": 7, "y": (2, 2), "depth": 4},
        {"x": (1, 5), "width": 9, "y": (2, 2), "depth": 4},
    ]
    assert each_of({"x": [1, 3], "y": [(2, 2)]}, ["x", "y"]) == [{"x": [1, 3], "y": (2, 2)}]
    assert each_of(None, ["x"]) == [None]
    assert largest_first([{"x": (1, 3)}, {"x": (4, 5)}, {"x": (2, 5)}]) == [1, 2, 0]


def test_lists_of_different_lengths() -> None:
    with pytest.raises(ModelError, match="2 for 'x', 3 for 'width'"):
        each_of({"x": [(1,), (2,)], "width": [1, 2, 3]}, ["x"])


def test_options() -> None:
    assert parse_shape_lists(["x:1x3x8,16x4,5", "y:1x2", "n=3,4"]) == {
        "x": [(1, 3, 8, 4), (1, 3, 16, 5)],
        "y": (1, 2),
        "n": [3, 4],
    }
    with pytest.raises(InputError, match="lists of 2 and 3 sizes"):
        parse_shape_lists(["x:1,2x3,4,5"])
    with pytest.raises(InputError, match="cannot read"):
        parse_shape_lists(["x:1x3,"])
    with pytest.raises(InputError, match="2 shapes for 'x'"):
        parse_shapes(["x:1x3,4"])
