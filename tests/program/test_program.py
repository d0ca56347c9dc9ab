"""The program's text form, and the memory that is reported of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo
from tvmconv.program.program import Call, Operand, Place, Program

sizes = st.integers(0, 1 << 50)


@st.composite
def operands(draw: st.DrawFn) -> Operand:
    place = draw(st.sampled_from(Place))
    index = draw(st.integers(0, 99)) if place in (Place.INPUT, Place.OUTPUT) else 0
    return Operand(place, draw(sizes), draw(sizes), index)


records = st.builds(KernelCall, st.text(), st.text(), st.text(), st.text(), sizes, sizes)
tensors = st.builds(
    TensorInfo,
    st.text(),
    st.lists(st.integers(0, 99), max_size=4).map(tuple),
    st.sampled_from(["float32", "int64", "bool"]),
)
programs = st.builds(
    Program,
    st.lists(tensors, max_size=3).map(tuple),
    st.lists(tensors, max_size=3).map(tuple),
    st.lists(
        st.builds(Call, records, st.lists(operands(), max_size=4).map(tuple), st.text()),
        max_size=4,
    ).map(tuple),
    st.just(()),
    sizes,
    sizes,
    sizes,
    sizes,
)


@given(st.builds(replace, programs, others=st.lists(programs, max_size=2).map(tuple)))
def test_json_and_back(program):
    assert Program.from_json(json.loads(json.dumps(program.to_json()))) == program


def test_operands_as_text():
    assert str(Operand(Place.ARENA, 64, 16)) == "arena[64:80]"
    assert str(Operand(Place.INPUT, 0, 4, 1)) == "input1[0:4]"
    assert Operand.parse("output0[0:4]") == Operand(Place.OUTPUT, 0, 4)


@pytest.mark.parametrize(
    "text", ["", "arena", "arena[8:4]", "arena[-1:4]", "heap[0:4]", "arena[0:4]x", "input[0:4"]
)
def test_what_is_no_operand(text):
    with pytest.raises(ValueError, match=r"operand|Place"):
        Operand.parse(text)
