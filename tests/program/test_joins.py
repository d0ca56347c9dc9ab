"""Concatenations whose parts are computed in their place, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.program.test_collect import FLOAT, check, model_of
from tvmconv.program.joins import computed_in_place
from tvmconv.program.places import Buffer, Step, place_in_arena
from tvmconv.program.program import Place, Program

node = helper.make_node
RANDOM = np.random.default_rng(11)


class Layers:
    """A model as it grows: 1x1 layers, and what joins them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def conv(self, source: str, name: str, inputs: int, outputs: int) -> str:
        weight = RANDOM.standard_normal((outputs, inputs, 1, 1)) / inputs
        self.weights[f"w_{name}"] = weight.astype(np.float32)
        self.nodes.append(node("Conv", [source, f"w_{name}"], [name]))
        return name

    def join(self, parts: Sequence[str], name: str, axis: int = 1) -> str:
        self.nodes.append(node("Concat", list(parts), [name], axis=axis))
        return name

    def check(self, batch: int = 1, outputs: Sequence[str] = ("y",)) -> Program:
        shape = (batch, 32, 5, 5)
        made = dict.fromkeys(outputs, FLOAT)
        model = model_of(self.nodes, {"x": (FLOAT, shape)}, made, self.weights)
        return check(model, {"x": RANDOM.standard_normal(shape).astype(np.float32)})


def joined(program: Program) -> int:
    return sum(call.record.operator == "concat" for call in program.calls)


def two_parts(channels: int = 32) -> Layers:
    layers = Layers()
    parts = [layers.conv("x", "a", 32, channels), layers.conv("x", "b", 32, 48)]
    layers.conv(layers.join(parts, "ab"), "y", channels + 48, 16)
    return layers


def test_parts_are_computed_where_the_whole_lies():
    program = two_parts().check()
    assert not joined(program)
    a, b, y = [call.operands for call in program.calls if call.record.operator == "conv2d"]
    whole = y[0]
    assert (a[-1].offset, b[-1].offset) == (whole.offset, whole.offset + a[-1].bytes)
    assert whole.bytes == a[-1].bytes + b[-1].bytes


@pytest.mark.parametrize(("channels", "batch"), [(32, 2), (36, 1)], ids=["images", "lanes"])
def test_parts_that_do_not_lie_one_behind_another_are_copied(channels, batch):
    """Of several images, and of blocks that are not full."""
    assert joined(two_parts(channels).check(batch)) == 1


def test_wholes_are_parts_and_parts_are_read():
    """As in networks whose layers each join what they read and what they make."""
    layers = Layers()
    layers.conv("x", "a", 32, 32)
    layers.conv("a", "b", 32, 16)
    layers.conv(layers.join(["a", "b"], "ab"), "c", 48, 16)
    layers.conv(layers.join(["ab", "c"], "abc"), "d", 64, 16)
    layers.conv("ab", "e", 48, 16)
    layers.nodes.append(node("Add", ["d", "e"], ["y"]))
    assert not joined(layers.check())


def test_what_is_joined_twice_or_asked_for_is_copied():
    """A part belongs to the first whole that can hold it."""
    layers = Layers()
    layers.conv("x", "a", 32, 32)
    layers.conv("x", "b", 32, 32)
    layers.conv(layers.join(["a", "a"], "aa"), "y", 64, 16)
    layers.conv(layers.join(["a", "b"], "ab"), "z", 64, 16)
    layers.conv(layers.join(["b", "a"], "ba"), "v", 64, 16)
    assert joined(layers.check(outputs=("y", "z", "v", "ba"))) == 2


def test_functions_that_do_more_than_join_are_called():
    layers = two_parts()
    layers.nodes.insert(-1, node("Sigmoid", ["ab"], ["s"]))
    layers.nodes[-1].input[0] = "s"
    program = layers.check()
    assert any("concat" in call.record.operator for call in program.calls)


def test_a_copy_stays_that_takes_less_memory():
    """A part that is made early would hold the memory of the whole for long."""
    early, big, late, whole, small = (Buffer(size) for size in (64, 6400, 640, 704, 64))
    source = Buffer(64, Place.INPUT)
    steps = [
        Step("f", None, [source], [early]),
        Step("f", None, [source], [big]),
        Step("f", None, [big], [small]),
        Step("f", None, [small], [late]),
        Step("join", None, [early, late], [whole], joins=True),
        Step("f", None, [whole], [Buffer(64, Place.OUTPUT)]),
    ]
    assert computed_in_place(steps) == steps
    assert place_in_arena(steps).bytes == 64 + 6400 + 64
    del steps[1:3]
    steps[1] = Step("f", None, [source], [late])
    assert computed_in_place(steps) == [*steps[:2], steps[3]]
    assert place_in_arena([*steps[:2], steps[3]]).bytes == 704


@pytest.mark.parametrize(("sizes", "left"), [((64, 96), 2), ((96, 64), 3)])
def test_parts_are_aligned(sizes, left):
    parts = [Buffer(size) for size in sizes]
    steps = [Step("f", None, [], [part]) for part in parts]
    steps.append(Step("join", None, parts, [Buffer(sum(sizes))], joins=True))
    assert len(computed_in_place(steps)) == left
