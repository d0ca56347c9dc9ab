"""Which instruction a machine multiplies with, by its features and the types of a layer."""

from __future__ import annotations

import pytest

from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.machines.multiply import (
    FMA,
    MULTIPLIES,
    lacking,
    matrix_multiply_of_bytes,
    multiplies,
    multiply_of_types,
    saturating_multiply,
)
from tvmconv.machines.targets import resolve_machine

BYTES = DataTypes("uint8", "int8", "int32", "int32")
SHORTS = DataTypes("uint8", "int16", "int32", "int32")


@pytest.mark.parametrize(
    ("target", "of_bytes", "of_shorts", "of_matrices"),
    [
        ("llvm -mcpu=haswell", "vpmaddwd", "vpmaddwd", "vpmaddwd"),
        ("llvm -mcpu=icelake-server", "vpdpbusd", "vpdpwssd", "vpdpbusd"),
        ("llvm -mcpu=sapphirerapids", "vpdpbusd", "vpdpwssd", "vpdpbusd"),
        ("cortex-a72", "smull", "smlal", "smull"),
        ("neoverse-n1", "sdot", "smlal", "sdot"),
        ("neoverse-n2", "sdot", "smlal", "smmla"),
        ("a64fx", "sve_sdot", "smlal", "sve_sdot"),
    ],
)
def test_a_machine_takes_its_best_exact_instruction(target, of_bytes, of_shorts, of_matrices):
    machine = resolve_machine(target, 1)
    assert multiply_of_types(FLOAT32, machine) is FMA
    assert multiply_of_types(BYTES, machine).name == of_bytes
    assert multiply_of_types(SHORTS, machine).name == of_shorts
    assert matrix_multiply_of_bytes(machine).name == of_matrices


def test_a_machine_says_which_floating_types_it_lacks():
    machine = resolve_machine("cortex-a72", 1)
    assert lacking(FLOAT32, machine) is None
    halves = DataTypes("float16", "float16", "float32", "float16")
    assert lacking(halves, machine) == (
        "cortex-a72 (cortex-a72) has no instruction that multiplies float16 with float32 "
        "accumulators"
    )


def test_saturation_is_for_machines_without_an_exact_instruction_for_bytes():
    haswell, icelake = (
        resolve_machine(f"llvm -mcpu={cpu}", 1) for cpu in ("haswell", "icelake-server")
    )
    saturating = saturating_multiply(haswell)
    assert saturating is not None
    assert not saturating.is_exact
    assert saturating_multiply(icelake) is None


def test_an_accumulator_holds_what_one_step_reads():
    for each in MULTIPLIES:
        assert each.is_packed == (each is not FMA)
        if each.rows == 1 and each.name != "smlal":
            assert each.step_bytes == 4
    assert any(m.in_tiles for m in multiplies(resolve_machine("llvm -mcpu=sapphirerapids", 1)))
