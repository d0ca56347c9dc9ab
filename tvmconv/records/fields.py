"""The fields of a record, each with its limits: no value of a file is trusted."""

from __future__ import annotations

import math
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError, TvmconvError
from tvmconv.core.trace import trace_text
from tvmconv.core.workload import Conv2dWorkload

MACHINE_TEXT = ("family", "isa", "mcpu")
MACHINE_SIZES = ("lanes", "vector_registers", "l1d_bytes", "l2_bytes", "l3_bytes", "cores")

_MAX_SAMPLES = 256
_MAX_NAME = 200
_MAX_SECONDS = 1e4
_MAX_KNOBS = 64
_MAX_EXTENT = 1 << 16
# fully connected layers have more outputs than images have channels: one for each token
_MAX_OUTPUTS = 1 << 20
_MAX_MACS = 1 << 42
_MAX_DEPTH = 8


class RecordError(TvmconvError):
    """A line of a tuning log that cannot be used; the message says what is wrong with it."""


def unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated fields."""
    data = dict(pairs)
    if len(data) != len(pairs):
        raise RecordError("a field is duplicated")
    return data


def check_depth(value: Any, left: int = _MAX_DEPTH) -> None:
    """Refuse deep nesting."""
    if not isinstance(value, dict | list):
        return
    if left == 0:
        raise RecordError(f"nested deeper than {_MAX_DEPTH} levels")
    for item in value.values() if isinstance(value, dict) else value:
        check_depth(item, left - 1)


def as_object(value: Any, name: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise RecordError(f"{name} must be an object")
    return value


def as_name(value: Any, name: str, empty: bool = False) -> str:
    """A short printable text."""
    if not isinstance(value, str) or len(value) > _MAX_NAME or not (value or empty):
        raise RecordError(f"{name} must be a text of at most {_MAX_NAME} characters")
    if not value.isprintable():
        raise RecordError(f"{name} holds unprintable characters")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_fraction(value: Any, name: str) -> None:
    """Refuse other values than a number from 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise RecordError(f"{name} must be a number from 0 to 1")


def as_samples(value: Any, name: str) -> tuple[float, ...]:
    """Times in seconds."""
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_SAMPLES:
        raise RecordError(f"{name} must list 1 to {_MAX_SAMPLES} seconds")
    for sample in value:
        if not _is_number(sample) or not 0 < sample < _MAX_SECONDS:
            raise RecordError(f"{name} holds {str(sample)[:40]!r}, which is not a time in seconds")
    return tuple(float(sample) for sample in value)


def as_config(value: Any, name: str) -> Config:
    """Knob values of simple types."""
    data = as_object(value, name)
    if len(data) > _MAX_KNOBS:
        raise RecordError(f"{name} has {len(data)} knobs; at most {_MAX_KNOBS} are read")
    for knob, setting in data.items():
        as_name(knob, f"{name} knob")
        if knob == "trace":
            raise RecordError(f"{name} must not name a trace")
        if isinstance(setting, str):
            as_name(setting, f"{name}.{knob}", empty=True)
        elif not isinstance(setting, int) or abs(setting) >= 1 << 31:
            raise RecordError(f"{name}.{knob} must be a small integer, a text or a boolean")
    return Config.from_json(data)


def as_trace(value: Any) -> str:
    """The text of a trace of listed instructions; empty without one."""
    if value is None:
        return ""
    try:
        return trace_text(value)
    except ConfigError as error:
        raise RecordError(f"trace: {error}") from None


def as_workload(value: Any) -> Conv2dWorkload:
    """A workload within the limits of tuning."""
    text = as_name(value, "workload")
    try:
        workload = Conv2dWorkload.parse(text)
    except (TvmconvError, ValueError, OverflowError) as error:
        raise RecordError(f"workload: {str(error)[:_MAX_NAME]}") from None
    extents = (
        *(workload.batch, workload.in_channels, workload.out_channels),
        *(workload.in_height, workload.in_width, workload.kernel_h, workload.kernel_w),
        *(workload.pad_top, workload.pad_left, workload.pad_bottom, workload.pad_right),
        *(workload.in_depth, workload.kernel_d, workload.pad_front, workload.pad_back),
    )
    most = _MAX_OUTPUTS if workload.is_matrix else _MAX_EXTENT
    if max(extents) > most or workload.macs > _MAX_MACS:
        raise RecordError(f"workload {text} is larger than tuning allows")
    if not all(math.isfinite(p) for step in workload.epilogue for p in step.params):
        raise RecordError(f"workload {text}: an epilogue parameter is not finite")
    return workload


def as_machine(value: Any) -> dict[str, Any]:
    """Machine facts with all fields that schedules read."""
    facts = as_object(value, "machine")
    for name in MACHINE_TEXT:
        as_name(facts.get(name), f"machine.{name}")
    for name in MACHINE_SIZES:
        size = facts.get(name)
        if type(size) is not int or not 0 <= size < 1 << 48:
            raise RecordError(f"machine.{name} must be a size")
    return facts
