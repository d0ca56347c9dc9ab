"""Machine models of 64-bit Arm CPUs for code with scalable vectors (SVE).

No figure here was measured by this project. Sources are as in :mod:`tvmconv.machines.arm`, and:

- A64FX: Fujitsu's microarchitecture manual (two units of 512 bits, latency 9, 64 KB of L1 with
  lines of 256 bytes, 8 MB of L2 for twelve cores, no L3).
- ``ftengine``: the CPU of the FTEngine paper (two units of 256 bits, 64 KB of L1, 2 MB of L2 for
  two cores, 64 MB of L3). Latency and ports are assumed to be Neoverse's.

Rates count vectors of fixed length, which NEON code in the same module has. ``Vector.rate``
converts them to scalable vectors.
"""

from __future__ import annotations

from dataclasses import replace

from tvmconv.machines.arm import MACHINES as NEON
from tvmconv.machines.record import CodeCosts, Machine, Rates, Vector

_KB, _MB = 1024, 1024**2


def _scalable(base: Machine, bits: int, rate: float = 1.0, name: str = "") -> Machine:
    """A CPU with scalable code in addition to its NEON code."""
    return replace(
        base,
        name=name or f"{base.name}+sve",
        family="sve",
        isa="sve",
        features=(*base.features, "sve"),
        vector=Vector(bits=bits, registers=32, scalable=True, rate=rate),
    )


# LLVM schedules its "generic" CPU for in-order execution
_GENERIC = replace(
    NEON["neoverse-n1"], mcpu="generic", code=replace(NEON["neoverse-n1"].code, loads_ahead=1)
)
_FTENGINE = replace(
    _GENERIC,
    name="ftengine",
    l2_bytes=1 * _MB,
    l3_bytes=64 * _MB,
)
_A64FX = replace(
    NEON["aarch64"],
    name="a64fx",
    isa="sve512",
    mcpu="a64fx",
    features=("asimd", "fp", "sve"),
    vector=Vector(bits=512, registers=32),
    channel_block=16,
    fma_units=2,
    fma_latency=9,
    load_ports=2,
    l1d_bytes=64 * _KB,
    l2_bytes=640 * _KB,
    l2_sharers=1,
    l3_bytes=0,
    line_bytes=256,
    l1d_way_bytes=16 * _KB,
    l1d_ways=4,
    rates=Rates(multiply_adds=2.0, broadcasts=2.0, l1=128.0, l2=40.0, l3=0.0, memory=9.0),
    code=CodeCosts(
        # ld1rw broadcasts a value from memory, and most need another instruction for the address.
        # Estimate: tiles 1x25 and 1x30 of ic512ih7oc2048kh1 take 1.1 times their loads
        folded_broadcast=1.1,
        pack_vector=12.0,
        pack_element=12.0,
        unrolls_block=False,
        prefetches_weights=False,
        spare_registers=2,
        extrema=True,
    ),
)
_MACHINES = (
    # any CPU with SVE; costs assume 256 bits, like two NEON units of 128
    _scalable(_GENERIC, 256, name="aarch64+sve"),
    _scalable(NEON["neoverse-v1"], 256, rate=0.5),
    _scalable(NEON["neoverse-n2"], 128),
    _scalable(NEON["neoverse-v2"], 128),
    _scalable(_FTENGINE, 256, name="ftengine"),
    _A64FX,
)
MACHINES: dict[str, Machine] = {machine.name: machine for machine in _MACHINES}
