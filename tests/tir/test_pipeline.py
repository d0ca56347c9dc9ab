"""The list of passes: names, reasons, and what it leaves alone."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from tests.assembly import assembly
from tests.kernels import V3, nodes
from tests.tiles_machine import TILES
from tests.tir.rewrites import check_same
from tvmconv.machines.presets import MACHINES as PRESETS
from tvmconv.tir.cuda import pipeline as cuda
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.general.specialize import Specialize
from tvmconv.tir.pipeline import (
    c_calls,
    compile_function,
    loop_passes,
    packed_calls,
    pipeline,
    statement_passes,
)

MACHINES = {
    "AVX2": V3,
    "AMX": TILES,
    "A53": PRESETS["cortex-a53"],
    "V1": PRESETS["neoverse-v1+sve"],
    "other": replace(V3, triple="riscv64-linux-gnu"),
}
# not in a pipeline: they run before schedules are made, or in measurements alone
APART = {
    *("VectorizableAngles", "VectorizableDoubles", "VectorizableMath", "VectorizablePowers"),
    *("ConstantsFirst", "LeaveOutBlocks"),
}
# change nothing: their tests compare what they count
COUNTING = {"RecordVectorCode", "RecordWorkspace"}
ARGUMENTS = {
    "LeaveOutBlocks": ((),),
    "neon.MultiplyByLane": (4,),
    "neon.InorderHalfLoads": (True,),
    "neon.InorderUnroll": (True,),
    "neon.Narrowing": (True,),
    "x86.ByteTables": (64,),
}


def constructors():
    """Every pass by its name: its constructor's, after its family's."""
    for wing in ("general", "amx", "x86", "neon", "sve", "cuda"):
        package = importlib.import_module(f"tvmconv.tir.{wing}")
        for info in pkgutil.iter_modules(package.__path__, f"tvmconv.tir.{wing}."):
            module = importlib.import_module(info.name)
            for name, value in vars(module).items():
                own = inspect.isfunction(value) and value.__module__ == info.name
                if own and name[0].isupper():
                    prefix = "" if wing == "general" else f"{wing}."
                    yield f"{prefix}{name}", value


PASSES = dict(constructors())


def used():
    """The names of this package's passes in all pipelines, each pipeline's in order."""
    lists = [
        pipeline(machine, calls).names
        for machine in MACHINES.values()
        for calls in (packed_calls, c_calls)
    ]
    lists.append([step.info.name for step in (*cuda.loop_passes(), *cuda.kernel_passes())])
    return [[n.removeprefix("tvmconv.") for n in names if "tvmconv." in n] for names in lists]


def test_a_pass_is_named_after_what_makes_it():
    made = {name: make(*ARGUMENTS.get(name, ())) for name, make in PASSES.items()}
    assert {name: p.info.name.removeprefix("tvmconv.") for name, p in made.items()} == {
        name: name for name in made
    }


def test_every_pass_is_in_a_pipeline_once():
    names = used()
    assert all(len(each) == len(set(each)) for each in names)
    assert {name for each in names for name in each} == PASSES.keys() - APART


@pytest.mark.parametrize(
    ("machine", "families"),
    [
        ("AVX2", {"x86"}),
        ("AMX", {"amx", "x86"}),
        ("A53", {"neon"}),
        ("V1", {"neon", "sve"}),
        ("other", set()),
    ],
)
def test_a_kernel_meets_the_passes_of_its_families_alone(machine, families):
    names = [name.removeprefix("tvmconv.") for name in pipeline(MACHINES[machine]).names]
    assert {name.partition(".")[0] for name in names} - {"tirx", "s_tir"} == families | {
        name for name in names if "." not in name
    }


def test_a_pipeline_is_printed_in_order_and_ends_where_asked():
    steps = pipeline(V3)
    assert str(steps).splitlines() == steps.names
    assert steps.until("x86.DotProducts").names[-1] == "tvmconv.x86.DotProducts"
    with pytest.raises(ValueError, match=r"unknown pass 'Nothing'; passes: .*Specialize"):
        steps.until("Nothing")


@pytest.mark.parametrize("name", sorted(PASSES.keys() - COUNTING))
def test_a_pass_says_what_it_rewrites_and_why(name):
    text = inspect.getdoc(PASSES[name])
    places = [text.find(f"\n\n{word}:") for word in ("Pattern", "Rewrite", "Why here")]
    assert -1 not in places and places == sorted(places)


@pytest.mark.parametrize("name", sorted(PASSES.keys() - COUNTING))
def test_a_pass_has_a_test_of_a_function_before_and_after(name):
    """In the file of its module's name: ``check(NAME(...), before, expected)``."""
    wing, module = PASSES[name].__module__.split(".")[-2:]
    path = Path(__file__).parent / wing / f"test_{module}.py"
    assert path.exists(), f"{name} has no test. Write {path}."
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    checked = [ast.unparse(c.args[0]) for c in calls if ast.unparse(c.func) == "check"]
    plain = name.rpartition(".")[2]
    assert any(each.startswith(f"{plain}(") for each in checked), (
        f"no function before and after {name}. Add check({plain}(...), before, expected) to {path}."
    )


def test_functions_that_are_no_kernels_are_not_specialized():
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
    assert [step.info.name for step in packed_calls(V3)][-2] == "tirx.MakePackedAPI"
    earlier = [step.info.name for step in (*loop_passes(), *statement_passes(V3))]
    assert not {step.info.name for step in packed_calls(V3)} & set(earlier)


def test_drafts_leave_out_the_checks_of_arguments():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for i in T.vectorized(64):
            y[i] = x[i] * T.float32(2)

    checked, draft = (compile_function(main, V3, draft=flag) for flag in (False, True))
    assert len(draft.inspect_source("ll")) < len(checked.inspect_source("ll"))


def test_no_block_is_left_after_the_first_passes():
    x = tvm.te.placeholder((8,), name="x")
    func = tvm.te.create_prim_func([x, tvm.te.compute((8,), lambda i: x[i] * 2.0)])
    assert nodes(func, tvm.s_tir.SBlock)
    assert not nodes(transformed(func, *loop_passes()), tvm.s_tir.SBlock)


@T.prim_func(s_tir=True)
def _times_257(x: T.Buffer((16,), "bfloat16"), y: T.Buffer((16,), "bfloat16")):
    for i in T.vectorized(16):
        y[i] = T.Cast("bfloat16", T.Cast("float32", x[i]) * T.float32(257))


def test_bfloat16_is_computed_in_float32_and_rounded_once():
    """257 takes 9 bits, one more than bfloat16 has: half of the products are ties."""
    x = np.arange(1, 17).astype(ml_dtypes.bfloat16)
    tensors = [tvm.runtime.tensor(array) for array in (x, np.zeros_like(x))]
    compile_function(_times_257, V3)["_times_257"](*tensors)
    expected = (x.astype(np.float32) * 257).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(tensors[1].numpy(), expected)


def test_functions_of_c_take_bfloat16():
    assert assembly(compile_function(_times_257, V3, calls=c_calls)).has("_times_257:")
