"""The list of passes: names, reasons, and what it leaves alone."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest
import tvm
from tvm.script import tirx as T

from tests.kernels import V3, nodes
from tests.tir.rewrites import check_same
from tvmconv import tir
from tvmconv.tir.cuda import lowering as cuda
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.general.specialize import Specialize
from tvmconv.tir.pipeline import (
    bare_calls,
    compile_function,
    loop_passes,
    packed_calls,
    statement_passes,
)


def constructors():
    """Every pass of the room by the name of what makes it."""
    for info in pkgutil.iter_modules(tir.__path__, "tvmconv.tir."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            own = inspect.isfunction(value) and value.__module__ == info.name
            if own and name[0].isupper():
                yield name, value


PASSES = dict(constructors())
OWN = [
    p.info.name
    for p in (
        *loop_passes(),
        *statement_passes(),
        *bare_calls(),
        *packed_calls(),
        *cuda.passes(),
        *cuda.kernel_passes(),
    )
    if "tvmconv" in p.info.name
]


def test_a_pass_is_named_after_what_makes_it():
    made = {name: make(()) if name == "LeaveOutBlocks" else make() for name, make in PASSES.items()}
    assert {name: p.info.name for name, p in made.items()} == {
        name: f"tvmconv.{name}" for name in made
    }
    assert {name.removeprefix("tvmconv.") for name in OWN} <= made.keys()


def test_every_file_has_its_place_in_the_map_of_the_room():
    named = re.findall(r"``(\w+)``|tvmconv\.tir\.(\w+)", tir.__doc__)
    files = [info.name for info in pkgutil.iter_modules(tir.__path__)]
    assert sorted(a or b for a, b in named) == sorted(files)


@pytest.mark.parametrize("name", sorted(PASSES.keys() - {"RecordVectorCode", "RecordWorkspace"}))
def test_a_pass_says_what_it_rewrites_and_why(name):
    text = inspect.getdoc(PASSES[name])
    places = [text.find(f"\n\n{word}:") for word in ("Pattern", "Rewrite", "Why here")]
    assert -1 not in places and places == sorted(places)


def test_each_stands_once_in_the_list():
    assert len(OWN) == len(set(OWN))
    # what no pass of the list needs runs before schedules are made, or in measurements alone
    apart = {"VectorisableMath", "ConstantsFirst", "LeaveOutBlocks"}
    assert {name.removeprefix("tvmconv.") for name in OWN} == PASSES.keys() - apart


def test_functions_that_are_no_kernels_are_not_specialised():
    @T.prim_func(private=True, s_tir=True)
    def padded(x: T.Buffer((4,), "float32"), y: T.Buffer((6,), "float32")):
        for t in T.parallel(2):
            for i in T.unroll(3):
                y[t * 3 + i] = T.if_then_else(
                    t * 3 + i >= 1 and t * 3 + i < 5, x[t * 3 + i - 1], T.float32(0)
                )

    check_same(Specialize(), padded)
    assert transformed(padded, Specialize()).same_as(padded)


def test_the_list_ends_with_the_convention_of_calls():
    """Another one can be put in its place."""
    assert [step.info.name for step in packed_calls()][-1] == "tirx.MakePackedAPI"
    earlier = [step.info.name for step in (*loop_passes(), *statement_passes())]
    assert not {step.info.name for step in packed_calls()} & set(earlier)


def test_drafts_leave_out_the_checks_of_arguments():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for i in T.vectorized(64):
            y[i] = x[i] * T.float32(2)

    checked, draft = (compile_function(main, V3, draft=flag) for flag in (False, True))
    assert len(draft.inspect_source("ll")) < len(checked.inspect_source("ll"))


def test_no_block_is_left_behind_the_first_passes():
    x = tvm.te.placeholder((8,), name="x")
    func = tvm.te.create_prim_func([x, tvm.te.compute((8,), lambda i: x[i] * 2.0)])
    assert nodes(func, tvm.s_tir.SBlock)
    assert not nodes(transformed(func, *loop_passes()), tvm.s_tir.SBlock)
