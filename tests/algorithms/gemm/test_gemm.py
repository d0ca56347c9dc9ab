"""Packed matrix products against float64, and their panels against the index formulas."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.ir import TensorLoad

from tests.assembly import assembly
from tests.kernels import V3, V4, alternating_machines, each_machine, lowered, nests
from tests.record_fields import single_changes
from tvmconv.algorithms.gemm.gemm import compute
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError, WorkloadError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.costs.cpu.gemm import default_config, half_cache, transfer_ratio
from tvmconv.kernels.gemm import GemmKernel, make_gemm
from tvmconv.lab.bench.gemm_run import GemmRun, exact, random_operands
from tvmconv.schedules.cpu.gemm import KNOBS
from tvmconv.tir.pipeline import compile_function


def relative_error(text, machine, **values):
    workload = GemmWorkload.parse(text)
    config = default_config(workload, machine).replace(**values)
    inputs = random_operands(workload)
    run = GemmRun(workload, machine, inputs, machine.cores, config, bool(config["prepacked"]))
    run()
    expected = exact(workload, inputs)
    return np.abs(run.output() - expected).max() / np.abs(expected).max()


@alternating_machines(
    "text, values",
    [
        ("gemm:m70n64k96", {}),
        ("gemm:m45n77k100", {"kc": 32, "mc": 28, "nc": 32, "nr": 16}),
        ("gemm:m45n50k70:alpha0.5:beta-2", {"kc": 36, "mc": 28, "nc": 32, "unroll": 4}),
        ("gemm:m61n40k33:beta1", {"prepacked": True}),
        ("gemm:m1n1k1", {}),
        ("gemm:m40n33k64", {"fetch": 0, "ahead": 0}),
    ],
)
def test_products_of_any_size(machine, text, values):
    assert relative_error(text, machine, **values) < 1e-6


@alternating_machines("values", [{}, {"tasks": 2}, {"parallel": "n", "nc": 32}])
def test_three_threads(machine, values):
    assert relative_error("gemm:m50n70k40", machine.with_cores(3), **values) < 1e-6


def test_fewer_blocks_than_threads_split_rows_then_columns():
    workload = GemmWorkload.parse("gemm:m26n1024k256")
    blocks = [default_config(workload, V4.with_cores(cores)) for cores in (1, 2, 8)]
    assert [(c["mc"] // c["mr"], c["tasks"]) for c in blocks] == [(2, 1), (1, 1), (1, 4)]


@pytest.mark.parametrize("cores, blocks", [(1, 3), (2, 4), (3, 3), (4, 4)])
def test_threads_have_equal_blocks(cores, blocks):
    config = default_config(GemmWorkload(512, 512, 512), V4.with_cores(cores))
    assert -(-512 // config.int("mc")) == blocks


@pytest.mark.slow
@each_machine
def test_the_default_beyond_one_block(machine):
    assert relative_error("gemm:m1030n1034k1100", machine) < 1e-6


def test_panels_are_where_the_formulas_say():
    """A[(i/mr) mr kc + k mr + i mod mr], B[(j/nr) nr kc + k nr + j mod nr], then zeros."""
    workload = GemmWorkload.parse("gemm:m20n40k32")
    kernel = make_gemm(workload, V4, mr=6, nr=16, kc=32, mc=24, nc=48)
    inputs = random_operands(workload)
    panels = panels_of(kernel, inputs)
    for name, width, count in (("pack_a", 6, 20), ("pack_b", 16, 40)):
        matrix = inputs["a"] if name == "pack_a" else inputs["b"].T
        flat = panels[name].reshape(-1)
        assert flat.size == -(-count // width) * width * 32
        expected = np.zeros_like(flat)
        for i, k in np.ndindex(count, 32):
            expected[i // width * width * 32 + k * width + i % width] = matrix[i, k]
        np.testing.assert_array_equal(flat, expected)
    np.testing.assert_array_equal(kernel.pack_b(inputs["b"]), panels["pack_b"])


def panels_of(kernel: GemmKernel, inputs):
    """The values of the expression's packing blocks."""
    from tvm import te

    a, b, output = compute(kernel.workload, kernel.machine, kernel.config)
    found = {}

    def visit(tensor):
        found[tensor.op.name] = tensor
        for source in tensor.op.input_tensors:
            visit(source)

    visit(output)
    packed = [found["pack_a"], found["pack_b"]]
    module = tvm.tirx.build(te.create_prim_func([a, b, *packed]), target="llvm")
    results = [tvm.runtime.empty([int(n) for n in tensor.shape], "float32") for tensor in packed]
    module["main"](tvm.runtime.tensor(inputs["a"]), tvm.runtime.tensor(inputs["b"]), *results)
    names = ("pack_a", "pack_b")
    return {name: result.numpy() for name, result in zip(names, results, strict=True)}


@pytest.mark.parametrize(
    ("machine", "mr", "nr", "unroll"),
    [
        (V4, 14, 32, 1),
        (V4, 12, 32, 4),
        (V4, 8, 32, 4),
        (V4, 10, 32, 1),
        (V4, 9, 48, 1),
        (V3, 6, 16, 1),
        (V3, 4, 24, 1),
    ],
)
def test_sums_stay_in_registers(machine, mr, nr, unroll):
    """The paper's checklist: no spills, no accumulator in memory, B vectors shared by all rows."""
    workload = GemmWorkload(4 * mr, 4 * nr, 64)
    kernel = make_gemm(workload, machine, mr=mr, nr=nr, mc=2 * mr, nc=4 * nr, unroll=unroll)
    module = compile_function(kernel.prim_func(), machine)
    code = assembly(module)
    body = code.hot_loop()
    vectors = nr // machine.lanes
    assert code.multiply_adds(body) == unroll * mr * vectors
    assert not code.spills(body)
    assert not code.stores(body)
    assert sum("vbroadcastss" in text for text in body) <= unroll * mr


def test_loops_have_the_order_of_the_paper():
    """Panels of B, packed; blocks of A, in parallel, packed; slivers of B, slivers of A, k."""
    workload = GemmWorkload(180, 320, 192)
    kernel = make_gemm(workload, V4.with_cores(2), mr=12, nr=32, kc=64, mc=36, nc=160)
    func = lowered(kernel)

    def readers(buffer):
        def reads(store):
            loads = []
            tvm_ffi.structural_walk(store.value, (TensorLoad, loads.append))
            return any(load.source.name == buffer for load in loads)

        return nests(func, reads)

    # 2 panels of B; the first of 3 parts of k is a copy of its own, which starts the sums
    parts = ("serial 2, parallel 5", "serial 2, serial 2, parallel 5")
    # 5 slivers of B, 64 steps; 3 slivers of A, 64 steps as 4 squares
    assert readers("b") == [f"{p}, serial 64, unrolled 2, vectorized 16" for p in parts]
    assert readers("a") == [f"{p}, serial 3, serial 4" for p in parts]
    # 5 slivers of B, 3 of A, steps, then the tile
    tile = "serial 5, serial 3, serial 64, unrolled 12, vectorized 16"
    assert readers("pack_a") == [f"{p}, {tile}" for p in parts]


def test_the_rule_counts_floats():
    assert half_cache(V4, 14, 32) == {"kc": 128, "mc": 1022, "nc": 16384}


def test_default_blocks_fill_half_of_l2():
    """Two slivers of B take a quarter, a block of A the other, as far as whole slivers go."""
    for machine in (V3.with_cores(1), V4.with_cores(1)):
        config = default_config(GemmWorkload(4096, 4096, 4096), machine)
        mr, nr, kc, mc = (config.int(name) for name in ("mr", "nr", "kc", "mc"))
        half = machine.l2_bytes // 8
        assert 2 * kc * nr <= half // 2
        assert half - kc * mr < 2 * kc * nr + kc * mc <= half


def test_operations_per_value_are_those_of_the_paper():
    """128 by 128 give 85.3 where n is large (source, section 4.2.2)."""
    config = Config.of(mc=128, kc=128)
    assert transfer_ratio(GemmWorkload(4096, 2**20, 128), config) == pytest.approx(85.3, abs=0.05)


@pytest.mark.parametrize("machine", [V3, V4])
def test_the_space_holds_the_block_sizes_of_the_paper(machine):
    values = KNOBS.values(GemmWorkload(1024, 1024, 1024), machine)
    for mc, kc, nc in ((128, 128, 4096), (144, 128, 4096), (160, 128, 4096), (256, 1024, 8192)):
        assert {mc, 168} <= set(values["mc"])
        assert kc in values["kc"]
        assert nc in values["nc"]
    assert {12, 14} <= set(values["mr"])


@pytest.mark.parametrize(
    "values",
    [
        {"mr": 15},
        {"mr": 6, "nr": 80},
        {"mr": 0},
        {"nr": 24},
        {"kc": 65, "unroll": 2},
        {"parallel": "k"},
        {"ahead": -1},
        {"mc": 2},
        {"nc": 16},
    ],
)
def test_impossible_knobs_are_refused(values):
    with pytest.raises(ConfigError, match=r"Expected|must"):
        make_gemm(GemmWorkload(64, 64, 64), V4, **values)


def test_unknown_knobs_are_refused():
    with pytest.raises(ConfigError, match="unknown knob"):
        make_gemm(GemmWorkload(64, 64, 64), V4, oc=2)


@pytest.mark.parametrize(
    "text",
    ["gemm:m1n2k3", "gemm:m64n48k32:alpha0.5:beta-1", "gemm:m1n2k3:u8s8s32u8:fixed:beta1e+20"],
)
def test_text_round_trips(text):
    assert str(GemmWorkload.parse(text)) == text
    assert GemmWorkload.parse("gemm:m2n3k4").flops == 48
    assert GemmWorkload.parse("gemm:m2n3k4").tensor_bytes == 4 * (8 + 12 + 6)
    assert GemmWorkload.parse("gemm:m2n3k4:u8s8s32s32").tensor_bytes == 8 + 12 + 4 * 6


@pytest.mark.parametrize(
    "text",
    ["gemm:m1n2k3:alpha0.333333333", "gemm:m4n5k6:u8s8s32u8:zpdata", "gemm:m4n5k6:u8s8s32s32"],
)
def test_a_change_of_any_field_changes_the_text(text):
    workload = GemmWorkload.parse(text)
    changes = list(single_changes(workload))
    for path, changed in changes:
        assert str(changed) != text, path
        assert GemmWorkload.parse(str(changed)) == changed, path
    top = {path.split(".")[0] for path, _ in changes}
    assert top == {field.name for field in fields(GemmWorkload)}


def test_undeclared_types_are_refused():
    workload = GemmWorkload.parse("gemm:m4n5k6:bf16bf16f32f32")
    with pytest.raises(ConfigError, match=r"it computes in float32 or .*, not bf16bf16f32f32"):
        make_gemm(workload, V4)


@pytest.mark.parametrize(
    "text",
    ["gemm:", "gemm:m1n2", "gemm:n1m2k3", "gemm:m0n1k1", "gemm:m1n1k99999999", "m1n1k1",
     "gemm:m1n1k1:alphax", "gemm:m1n1k1:alphainf", "gemm:m1n1k1:beta",
     "gemm:m1n1k1:u8", "gemm:m1n1k1:beta1:u8s8s32u8"],
)  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(WorkloadError):
        GemmWorkload.parse(text)
