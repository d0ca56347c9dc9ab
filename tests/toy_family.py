"""A made-up family: one record, no file of schedules, executed as AVX2 code with short vectors.

Its four lanes and its 32 registers, of which the code generator has 16, are like NEON's.
"""

from __future__ import annotations

from dataclasses import replace

from tests.kernels import V3
from tvmconv.machines.record import Vector

TOY = replace(
    V3,
    name="toy",
    family="toy",
    isa="toy128",
    vector=Vector(bits=128, registers=32),
    channel_block=4,
    l3_bytes=0,
    rates=replace(V3.rates, l1=32.0, l3=0.0),
    code=replace(V3.code, unrolls_block=False, halves=True, phases=True),
)
