"""Machine model of 64-bit RISC-V CPUs with vectors (RVV 1.0), for code of fixed vector length.

Status: correct under emulation, rates assumed. Code for vectors of 256 bits also runs on CPUs with
longer vectors, of which it uses 256 bits. Sizes of caches are from SpacemiT X60, which has vectors
of 256 bits. Rates and latency assume one FMA and one load a cycle.
"""

from __future__ import annotations

from tvmconv.machines.record import CodeCosts, Machine, Rates, Vector

_KB = 1024

_V256 = Machine(
    name="riscv64-v256",
    family="riscv",
    isa="rvv256",
    triple="riscv64-linux-gnu",
    mcpu="generic-rv64",
    features=("a", "c", "d", "f", "m", "v", "zvl256b"),
    vector=Vector(bits=256, registers=32),
    channel_block=8,
    fma_units=1,
    fma_latency=5,
    load_ports=1,
    l1d_bytes=32 * _KB,
    l2_bytes=512 * _KB,
    l2_sharers=4,
    l3_bytes=0,
    line_bytes=64,
    l1d_way_bytes=8 * _KB,
    l1d_ways=4,
    cores=1,
    rates=Rates(multiply_adds=1.0, broadcasts=1.0, l1=32.0, l2=8.0, l3=0.0, memory=3.0),
    code=CodeCosts(
        # an FMA multiplies a vector by a scalar register, which one load fills
        folded_broadcast=1.0,
        pack_vector=4.0,
        pack_element=12.0,
        unrolls_block=False,
        # prefetches need an extension (Zicbop) that these CPUs may lack
        prefetches_weights=False,
        # register v0 holds masks
        spare_registers=2,
        phases=True,
    ),
)
MACHINES: dict[str, Machine] = {_V256.name: _V256}
