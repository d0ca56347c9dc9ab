"""Matrix products of integers: exact modulo 2**32 for values of all sizes, on every instruction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulating import needs_arm, run_functions
from tests.kernels import V3, V4
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import ConfigError, WorkloadError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.gemm import make_gemm
from tvmconv.lab.bench.gemm_run import GemmRun, exact, random_operands
from tvmconv.machines.multiply import multiply_of_product
from tvmconv.machines.presets import MACHINES
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine

TYPES = ("u8s8s32s32", "s8s8s32s32", "s16s16s32s32")


@pytest.mark.parametrize(
    ("machine", "text", "prepacked"),
    [
        ("native", "gemm:m45n77k101:u8s8s32s32", False),
        ("native", "gemm:m29n40k64:s8s8s32s32", True),
        ("native", "gemm:m13n33k41:s16s16s32s32", False),
        ("x86-64-v3", "gemm:m13n33k42:u8s8s32s32", True),
        ("x86-64-v3", "gemm:m29n40k65:s8s8s32s32", False),
        ("x86-64-v3", "gemm:m45n20k100:s16s16s32s32", True),
    ],
)
def test_products_of_all_values(machine: str, text: str, prepacked: bool) -> None:
    workload, threads = GemmWorkload.parse(text), 1 + prepacked
    inputs = random_operands(workload)
    for name, extreme in (("a", np.s_[0]), ("b", np.s_[:, 0])):
        inputs[name][extreme] = np.iinfo(inputs[name].dtype).min
    run = GemmRun(workload, resolve_machine(machine, threads), inputs, threads, prepacked=prepacked)
    run()
    np.testing.assert_array_equal(run.output(), exact(workload, inputs))


@pytest.mark.parametrize(
    ("machine", "instructions"),
    [
        (V3, ("vpmaddwd", "vpmaddwd", "vpmaddwd")),
        (MACHINES["neoverse-n1"], ("smlal", "sdot", "smlal")),
        (MACHINES["cortex-a72"], ("smlal", "smlal", "smlal")),
    ],
)
def test_the_instructions_of_products(machine: Machine, instructions: tuple[str, ...]) -> None:
    types = [GemmWorkload.parse(f"gemm:m1n1k1:{text}").types for text in TYPES]
    found = [multiply_of_product(each, machine).name for each in types]
    assert found == list(instructions)


@needs_arm
@pytest.mark.slow
@pytest.mark.parametrize("name", ["neoverse-n1", "cortex-a72", "neoverse-v1"])
def test_products_under_qemu(name: str, tmp_path: Path) -> None:
    machine = MACHINES[name].with_cores(1)
    functions, operands, expected = [], [], []
    sizes = ("m26n40k70:u8s8s32s32", "m17n64k36:s8s8s32s32", "m17n19k33:s16s16s32s32")
    for workload in (GemmWorkload.parse(f"gemm:{text}") for text in sizes):
        inputs = random_operands(workload)
        functions.append(make_gemm(workload, machine).prim_func())
        expected.append(exact(workload, inputs))
        operands.append([*inputs.values(), np.zeros_like(expected[-1])])
    (found,) = run_functions(functions, operands, machine, tmp_path, ())
    for result, correct in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result, correct)


def test_what_integer_products_lack() -> None:
    scaled = GemmWorkload.parse("gemm:m4n4k4:u8s8s32s32:beta1")
    with pytest.raises(ConfigError, match="alpha 1 and beta 0"):
        make_gemm(scaled, V4)
    with pytest.raises(ConfigError, match="it computes in"):
        make_gemm(GemmWorkload.parse("gemm:m4n4k4:u8u8s32s32"), V4)
    with pytest.raises(WorkloadError, match="matrix product"):
        Conv2dWorkload.parse("ic4ih5oc4kh3:s16s16s32s32")
    with pytest.raises(WorkloadError, match="unsupported types"):
        DataTypes.parse(["s16s8s32s32"])
