"""Reads machine models from manifests, requests and files, and checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import isfinite
from typing import Any

from tvmconv.core.errors import TargetError
from tvmconv.machines.cuda import CudaMachine, read_cuda_machine
from tvmconv.machines.presets import MACHINES, similar
from tvmconv.machines.record import CodeCosts, Machine, Rates, Vector
from tvmconv.machines.tile_unit import TileUnit
from tvmconv.machines.x86 import as_processor

# upper bound beyond any core: 64 vectors of 2048 bits
_MOST_A_CYCLE = 1 << 14


def read_device(data: Mapping[str, Any]) -> Machine | CudaMachine:
    """Inverse of ``to_json`` for a machine model of any kind; errors as :func:`read_machine`."""
    if data.get("kind") == CudaMachine.kind:
        return read_cuda_machine(dict(data))
    return read_machine(data)


def read_machine(data: Mapping[str, Any]) -> Machine:
    """Inverse of :meth:`~tvmconv.machines.record.Machine.to_json`, also for data of older versions.

    Those have one number of lanes for vectors and channel blocks, and no rates. Missing fields come
    from the shipped model of their instruction set. Raises ``TargetError`` if data of the first
    version have an unknown instruction set. Raises ``KeyError``, ``TypeError`` or ``ValueError`` if
    a field is missing or of another type.
    """
    if "lanes" in data:
        return _first_form(data)
    # fields that older records lack
    given = {field.name: {"tiles": None, **data}[field.name] for field in fields(Machine)}
    given["features"] = tuple(map(str, data["features"]))
    given["vector"] = Vector(**data["vector"])
    given["rates"] = read_rates(data["rates"])
    given["code"] = CodeCosts(**data["code"])
    given["tiles"] = TileUnit(**given["tiles"]) if given["tiles"] else None
    return Machine(**given)


def read_rates(data: Mapping[str, Any]) -> Rates:
    """Rates as :func:`dataclasses.asdict` writes them.

    Raises ``TypeError`` or ``ValueError`` if a rate is missing or not plausible; names the rate.
    """
    rates = Rates(**data)
    for field in fields(Rates):
        value = getattr(rates, field.name)
        if field.name == "origin":
            good = isinstance(value, str)
        else:
            good = type(value) in (int, float) and isfinite(value) and 0 <= value <= _MOST_A_CYCLE
            # a core may lack an L3; the rates of packed integers and of all cores may be unknown
            good = good and (value > 0 or field.name in ("l3", "words", "all_memory"))
        if not good:
            raise ValueError(f"{field.name}={value!r} is not a rate")
    return rates


def _first_form(data: Mapping[str, Any]) -> Machine:
    isa = data["isa"]
    base = similar(isa, str(data["mcpu"]))
    if base is None:
        known = ", ".join(dict.fromkeys(machine.isa for machine in MACHINES.values()))
        raise TargetError(f"unsupported instruction set {isa!r}; supported: {known}")
    texts = ("name", "family", "mcpu")
    numbers = ("fma_units", "fma_latency", "cores", "l1d_bytes", "l2_bytes", "l3_bytes")
    lanes = int(data["lanes"])
    return replace(
        as_processor(base, str(data["mcpu"])),
        **{name: data[name] for name in (*texts, *numbers)},
        features=tuple(map(str, data["features"])),
        vector=Vector(bits=32 * lanes, registers=int(data["vector_registers"])),
        channel_block=lanes,
    )
