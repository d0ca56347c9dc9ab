"""The description of a CPU as a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmconv.machines.multiply import multiply_of_bytes
from tvmconv.machines.record import Machine
from tvmconv.report.clock import Clock
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, bytes_text, plain

_FIELDS = plain("field", "value", "unit")
_LEVELS = ("l1", "l2", "l3", "memory", "all_memory")
_UNITS = {
    "vector.bits": "bits",
    "channel_block": "float32 values",
    "fma_latency": "cycles",
    "load_ports": "vectors a cycle",
    **dict.fromkeys(("rates.multiply_adds", "rates.words"), "vectors a cycle"),
    "rates.broadcasts": "values a cycle",
    **dict.fromkeys((f"rates.{name}" for name in _LEVELS), "bytes a cycle"),
    "code.folded_broadcast": "times a shared one",
    **dict.fromkeys(("code.pack_vector", "code.pack_element"), "cycles"),
}


def machine_report(
    machine: Machine, shipped: Machine, clock: Clock, notes: tuple[str, ...] = ()
) -> Report:
    """Every field of a machine, compared with the ``shipped`` one without measurements."""
    plain = _flat(shipped.to_json())
    rows = []
    for name, value in _flat(machine.to_json()).items():
        unit = _UNITS.get(name, "bytes" if name.endswith("_bytes") else "")
        row = {"field": name, "value": value, "unit": unit}
        if value != plain[name]:
            row["shipped"] = plain[name]
        rows.append(row)
    columns: tuple[Column, ...] = _FIELDS
    measured = [row for row in rows if "shipped" in row]
    if measured:
        columns += (Column("shipped", "shipped record"),)
    title, origin = f"{machine.name}: {machine.mcpu}, {machine.isa}", machine.rates.origin
    multiply = multiply_of_bytes(machine)
    levels = {"L1": machine.l1d_bytes, "L2": machine.l2_bytes, "L3": machine.l3_bytes}
    brief = Report(
        kind="machine",
        title=title,
        facts={
            "features": " ".join(machine.features),
            "vectors": f"{machine.vector.bits} bits, {machine.vector.registers} registers",
            "INT8": multiply.name if multiply.features else "no instruction",
            "caches": ", ".join(
                f"{name} {bytes_text(size)}" for name, size in levels.items() if size
            ),
            "cores": machine.cores,
            "rates": origin,
            "clock": str(clock),
        },
        tables=(Table("fields", "Measured", columns, measured),) if measured else (),
        notes=(*notes, "-v shows every figure that predictions use."),
    )
    return Report(
        kind="machine",
        title=title,
        facts={"rates": origin, "clock": str(clock)},
        tables=(Table("fields", "Record", columns, rows),),
        notes=(
            "Costs are counted in cycles of one core from these figures; the clock is for reports "
            "alone.",
            *notes,
        ),
        data={"machine": machine.to_json(), "hertz": clock.hertz, "measured": clock.measured},
        brief=brief,
    )


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields by dotted names, as a table shows them."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, float):
            flat[prefix + name] = round(value, 2)
        else:
            flat[prefix + name] = " ".join(value) if isinstance(value, list) else value
    return flat
