"""Machine models of x86-64 CPUs, by feature level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvmconv.machines.record import CodeCosts, Machine, Rates, Vector
from tvmconv.machines.tile_unit import TILE_FEATURES, TileUnit

_AVX2_FEATURES = ("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "popcnt", "sse4_2")
_AVX512_FEATURES = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_AMX = TileUnit(registers=8, rows=16, row_bytes=64, rows_a_cycle=1.0)

# Bandwidth beyond L1 is fitted to calls measured on Cascade Lake, prefetches included
# (docs/notes). Rates of L1 and units are Intel's and AMD's for most cores.
_X86_64_V3 = Machine(
    name="x86-64-v3",
    family="x86",
    isa="avx2",
    triple="x86_64-linux-gnu",
    mcpu="x86-64-v3",
    features=_AVX2_FEATURES,
    vector=Vector(bits=256, registers=16),
    channel_block=8,
    fma_units=2,
    fma_latency=4,
    load_ports=2,
    l1d_bytes=32 * 1024,
    l2_bytes=512 * 1024,
    l3_bytes=16 * 1024 * 1024,
    line_bytes=64,
    l1d_way_bytes=4096,
    l1d_ways=8,
    cores=1,
    rates=Rates(multiply_adds=2.0, broadcasts=2.0, l1=64.0, l2=48.0, l3=10.0, memory=5.2),
    code=CodeCosts(
        folded_broadcast=1.15,
        pack_vector=4.0,
        pack_element=12.0,
        unrolls_block=True,
        # a cache line has two vectors: a prefetch serves few FMAs, and cost more than it hid
        prefetches_weights=False,
        spare_registers=1,
        phases=True,
    ),
)
_X86_64_V4 = replace(
    _X86_64_V3,
    name="x86-64-v4",
    isa="avx512",
    mcpu="x86-64-v4",
    features=_AVX2_FEATURES + _AVX512_FEATURES,
    vector=Vector(bits=512, registers=32),
    channel_block=16,
    l2_bytes=1024 * 1024,
    rates=replace(_X86_64_V3.rates, l1=128.0),
    code=CodeCosts(
        folded_broadcast=1.15,
        pack_vector=12.0,
        pack_element=12.0,
        unrolls_block=False,
        prefetches_weights=True,
        spare_registers=2,
        phases=True,
    ),
)
# LLVM's name of a CPU -> packed reduction steps in a cycle, if fewer than the FMA rate and their
# other instructions allow. On Zen 4 (measured) 512-bit vectors use 256-bit units twice. Others have
# one unit for integer multiplications, of 128 bits on Zen. By llvm-mca 19, 4 `vpmaddwd` with
# `vpaddd` of 256 bits take 4 cycles, 8 on Zen, and 2 on Skylake, Ice Lake, Alder Lake, Zen 3 and
# Zen 4.
_PACKED_STEPS = {"znver4": 1.0, "haswell": 1.0, "broadwell": 1.0, "znver1": 0.5, "znver2": 1.0}
# CPUs whose units process a 512-bit vector in two parts
_DOUBLE_PUMPED = frozenset({"znver4"})
# LLVM's name of a CPU -> bytes in a cycle of L2, L3 and memory. L2 and L3 by `tvmconv cpu
# --measure`. Memory by Winograd layers that wait for weights: one thread received 8.6 bytes in a
# cycle of 4.4 GHz, two together 10.3.
_BANDWIDTHS: dict[str, dict[str, Any]] = {
    "znver5": {"l2": 60.0, "l3": 30.0, "memory": 10.0, "all_memory": 12.0}
}
# LLVM's name of a CPU and bits of its vectors -> its costs of code, where they differ.
# docs/notes/machine-models.md says how they were measured.
_CODE: dict[tuple[str, int], dict[str, Any]] = {
    ("znver5", 256): {
        "transform": 0.33,
        "long_transform": 0.1,
        "spilled": 0.2,
        "streamed": 0.4,
        "halves": True,
    },
    ("znver5", 512): {
        "transform": 0.57,
        "long_transform": 0.1,
        "spilled": 0.2,
        "streamed": 0.4,
        "border_rows": 0.25,
        "fetched_panel": 1.0,
        "selects_lanes": True,
        "halves": True,
    },
}


def as_processor(record: Machine, mcpu: str) -> Machine:
    """The machine model of an instruction set, adapted to one of its CPUs."""
    rates = replace(record.rates, words=_PACKED_STEPS.get(mcpu, record.rates.words))
    rates = replace(rates, **_BANDWIDTHS.get(mcpu, {}))
    if mcpu in _DOUBLE_PUMPED and record.vector.bits == 512:
        rates = replace(rates, multiply_adds=rates.multiply_adds / 2)
        record = replace(record, fma_units=record.fma_units // 2)
    code = replace(record.code, **_CODE.get((mcpu, record.vector.bits), {}))
    return replace(record, mcpu=mcpu, rates=rates, code=code)


def with_tiles(record: Machine) -> Machine:
    """The machine model of a CPU with AVX-512 that also has AMX."""
    if record.vector.bits != 512:
        return record
    return replace(record, features=record.features + TILE_FEATURES, tiles=_AMX)


MACHINES: dict[str, Machine] = {m.name: m for m in (_X86_64_V3, _X86_64_V4)}
