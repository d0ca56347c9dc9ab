"""Kernels that stop after a stage: the stages that stay, and only they."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm import ir
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.lab.bench.kernel_run import KernelRun
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring.integers import exact_output, random_integers
from tvmconv.measuring.operands import random_operands
from tvmconv.tir.general.partial_kernels import LeaveOutBlocks
from tvmconv.tir.general.rewrite import transformed

LAYER = Conv2dWorkload.parse("ic32ih12oc48kh3+bias+relu")
PADDED = Conv2dWorkload.parse("ic32ih12oc48kh3ph1+bias")


@T.prim_func(private=True, s_tir=True)
def two_stages(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    with T.sblock("root"):
        packed = T.sblock_alloc_buffer((8,), "float32")
        for i in range(8):
            with T.sblock("pack"):
                v = T.axis.spatial(8, i)
                packed[v] = x[v] * T.float32(2)
        for i in range(8):
            with T.sblock("product_update"):
                v = T.axis.spatial(8, i)
                y[v] = packed[v] + T.float32(1)


def test_what_a_missing_block_would_read_is_kept_alive():
    """By one element, in place of the loop around the block."""

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        with T.sblock("root"):
            packed = T.sblock_alloc_buffer((8,), "float32")
            for i in range(8):
                with T.sblock("pack"):
                    v = T.axis.spatial(8, i)
                    packed[v] = x[v] * T.float32(2)
            y[0] = packed[0]

    check(LeaveOutBlocks(["product"]), two_stages, expected)


def test_what_a_missing_block_would_write_is_read_as_it_is():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        with T.sblock("root"):
            packed = T.sblock_alloc_buffer((8,), "float32")
            for i in range(8):
                with T.sblock("product_update"):
                    v = T.axis.spatial(8, i)
                    y[v] = packed[v] + T.float32(1)

    check(LeaveOutBlocks(["pack"]), two_stages, expected)


def test_part_of_a_name_is_no_name():
    check_same(LeaveOutBlocks(["pac", "update"]), two_stages)


def buffers_read(kernel: Kernel, omit: list[str]) -> set[str]:
    names: set[str] = set()
    body = transformed(kernel.prim_func(), LeaveOutBlocks(omit)).body
    tvm_ffi.structural_walk(body, (ir.expr.TensorLoad, lambda load: names.add(load.source.name)))
    return names


@pytest.mark.parametrize("algorithm", ["winograd", "winograd_eta", "im2win", "im2col"])
def test_later_stages_are_gone(algorithm):
    kernel = make_kernel(PADDED, resolve_machine("native", 1), algorithm)
    stages = kernel.expression.stages
    named = [block for _, blocks in stages for block in blocks]
    assert set(named) == set(kernel.expression.blocks)
    whole = buffers_read(kernel, [])
    assert {"data", "weight", "bias"} <= whole
    first = buffers_read(kernel, named[len(stages[0][1]) :])
    assert "data" in first
    assert not {"weight", "bias"} & first


def test_the_product_stage_reads_weights_but_no_bias():
    kernel = make_kernel(PADDED, resolve_machine("native", 1), "winograd")
    names = buffers_read(kernel, ["rows", "output"])
    assert {"data", "weight"} <= names
    assert "bias" not in names


@pytest.mark.parametrize(
    ("algorithm", "knobs", "stage"),
    [("im2win", {"rows": 10}, "window transform"), ("im2col", {"mc": 0}, "packing")],
)
def test_what_is_left_computes_the_same_values(algorithm, knobs, stage):
    machine = resolve_machine("native", 1)
    default = make_kernel(LAYER, machine, algorithm).config
    kernel = Kernel(LAYER, machine, algorithm, default.replace(**knobs))
    inputs, constants = random_operands(LAYER)
    run = KernelRun(kernel, inputs, constants, 1)
    run()
    expected = run.output().copy()
    calls = run.stages()
    assert next(iter(calls)) == stage
    calls[stage]()
    # the one element that is kept of the buffer is the first window's first
    np.testing.assert_array_equal(run.output()[0, 0, 0, 0], inputs["data"][0, 0, 0, 0])
    calls["product"]()
    np.testing.assert_array_equal(run.output(), expected)


def test_stages_of_integers_end_in_their_output_too():
    """The kept results of a stage have 16 or 32 bits, the output 8."""
    workload = Conv2dWorkload.parse("ic16ih8oc16kh3ph1:u8s8s32u8:zpdata+bias")
    kernel = make_kernel(workload, resolve_machine("native", 1), "winograd")
    operands = random_integers(workload)
    run = KernelRun(kernel, {"data": operands.data}, operands.constants, 1)
    for call in run.stages().values():
        call()
    np.testing.assert_array_equal(run.output(), exact_output(workload, operands))


def test_facts_of_a_kernel():
    machine = resolve_machine("native", 1)
    kernel = make_kernel(PADDED, machine, "winograd")
    inputs, constants = random_operands(PADDED)
    facts = KernelRun(kernel, inputs, constants, 1).facts()
    assert facts["packed_weight_bytes"] == kernel.pack_weight(constants["weight"]).nbytes
    assert 0 < facts["multiplies"] < PADDED.macs
    assert facts["pack_seconds"] > 0
    assert Config.from_json(facts["knobs"]) == kernel.config
