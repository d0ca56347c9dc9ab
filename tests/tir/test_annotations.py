"""The annotations of schedules: all declared, all worked off before LLVM."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from tvm import s_tir, tirx

from tests.kernels import V3, V4, nodes
from tests.tiles_machine import TILES
from tvmconv.core.config import Config
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.gemm import make_gemm
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.rules import schedule_function
from tvmconv.machines.presets import MACHINES
from tvmconv.tir import annotations
from tvmconv.tir.annotations import DECLARED
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.pipeline import loop_passes, pipeline, statement_passes

ROOT = Path(__file__).parents[2]
LAYERS = {
    # larger than half of L1, so that it is prefetched
    "direct": "ic24ih33oc40kh3ph1+bias+relu",
    "depthwise": "g16ic16ih9oc16kh3ph1+bias",
    "direct_bytes": "ic16ih9oc16kh3ph1:u8s8s32u8+bias",
    "direct_tiles": "ic256ih9oc40kh3ph1:u8s8s32u8+bias",
    "direct_first": "ic3ih23iw9oc33kh5sh2ph2:nchw+bias",
    "im2win_nchw": "ic16ih9oc16kh3:nchw",
}
LAYER = "ic32ih9oc40kh3ph1+bias+relu"


def scheduled():
    """A function of every algorithm, a product, and an operator of odd length."""
    for name in registry.names():
        workload = Conv2dWorkload.parse(LAYERS.get(name, LAYER))
        # from the last machine that has it: some are for Arm, or for AMX, alone
        for machine in (MACHINES["aarch64"], V3, V4, TILES):
            if not registry.algorithm(name).unsupported(workload, machine):
                yield name, make_kernel(workload, machine, name).prim_func()
    pairs = Conv2dWorkload.parse("ic16ih7oc16kh3ph1:u8s8s32u8+bias")
    yield "pairs", make_kernel(pairs, V3, "direct").prim_func()
    yield "gemm", make_gemm(GemmWorkload(60, 90, 40), V3, fetch=1, ahead=256).prim_func()
    for name, func in _of_rows():
        yield name, schedule_function(func, V3)
    strips = make_kernel(Conv2dWorkload.parse(LAYER), MACHINES["aarch64"], "winograd")
    yield "strips", strips.prim_func()
    scalable = MACHINES["aarch64+sve"]
    yield "scalable", make_kernel(Conv2dWorkload.parse(LAYER), scalable, "direct").prim_func()


def _of_rows():
    from tvm import te, topi

    x = te.placeholder((5, 1001), name="x")
    twice = te.compute(x.shape, lambda i, j: x[i, j] + x[i, j])
    image = te.placeholder((1001, 3), name="image")
    results = {
        "rule": (x, twice),
        "reduction": (x, topi.sum(x, [1])),
        "transposition": (x, topi.transpose(x)),
        "colors": (image, topi.transpose(image)),
    }
    for name, arguments in results.items():
        yield name, te.create_prim_func(arguments).with_attr("global_symbol", "main")


NAMES = [*registry.names(), "pairs", "gemm", "rule", "reduction", "transposition", "colors"]
NAMES += ["strips", "scalable"]


@cache
def functions():
    return dict(scheduled())


def keys(func):
    """The annotations of loops, and of blocks and allocations."""
    kinds = (tirx.For, s_tir.SBlock, tirx.AllocBuffer)
    return {key for kind in kinds for node in nodes(func, kind) for key in node.annotations}


def test_every_algorithm_is_here():
    assert set(NAMES) == functions().keys()


def test_every_annotation_is_set_by_some_schedule():
    assert set().union(*(keys(func) for func in functions().values())) >= DECLARED.keys()


@pytest.mark.parametrize("name", NAMES)
def test_what_a_schedule_sets_is_declared(name):
    # TVM's own for buffers; for blocks, the name of the tensor expression's operation
    known = {"buffer_allocated_addr", "buffer_data_alignment"} | {
        "tvmconv.operator",
        "tvmconv.algorithm",
    }
    loops = {key for loop in nodes(functions()[name], tirx.For) for key in loop.annotations}
    assert loops <= DECLARED.keys()
    assert keys(functions()[name]) <= DECLARED.keys() | known


def _machine(name):
    return MACHINES["aarch64+sve"] if name == "scalable" else TILES


@pytest.mark.parametrize("name", NAMES)
def test_none_reaches_llvm(name):
    lowered = transformed(functions()[name], *loop_passes(), *statement_passes(_machine(name)))
    assert not {key for key in keys(lowered) if key.startswith("tvmconv.")}


def test_consumers_are_passes_of_the_pipeline():
    machines = (TILES, MACHINES["neoverse-v1+sve"])
    names = {name for machine in machines for name in pipeline(machine).names}
    assert {declared.consumer for declared in DECLARED.values()} <= names


def test_schedules_annotate_through_the_declarations_alone():
    found = []
    for folder in ("schedules", "tvmconv"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "annotate" in text else ():
                if isinstance(node, ast.Attribute) and node.attr in ("annotate", "unannotate"):
                    found.append(path.relative_to(ROOT).as_posix())
    assert set(found) == {Path(annotations.__file__).relative_to(ROOT).as_posix()}


def test_annotations_say_what_they_ask_for():
    for name, declared in DECLARED.items():
        assert name.startswith("tvmconv.")
        assert all((declared.loop, declared.value, declared.meaning, declared.consumer))


def test_a_configuration_with_prefetches_is_among_them():
    """Otherwise the test above would hold of an annotation that nobody sets."""
    config = Config.of(oc=2, oh=1, ow=5, rows=0, fetch_input=1, fetch_weight=1)
    workload = Conv2dWorkload.parse(LAYER)
    func = make_kernel(workload, V3, "direct", config).prim_func()
    (flags,) = [
        list(loop.annotations[annotations.PREFETCH])
        for loop in nodes(func, tirx.For)
        if annotations.PREFETCH in loop.annotations
    ]
    assert [int(flag) for flag in flags] == [1, 1]
