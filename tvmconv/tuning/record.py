"""One line of a tuning log: a verified, measured improvement over the untuned choice.

A record is plain JSON: what was tuned (workload string, machine, algorithm, knob values), what
was measured (every sample, and the samples of the default taken in turn with them), how the
output was verified, and where it came from (device, versions, date). It never holds code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tvmconv.config import Config
from tvmconv.errors import TvmconvError
from tvmconv.machine import Machine
from tvmconv.workload import Conv2dWorkload

VERSION = 1
MAX_LINE_BYTES = 64 * 1024
_MAX_SAMPLES = 256
_MAX_NAME = 200
_MAX_SECONDS = 1e4
_MAX_KNOBS = 64
_MAX_EXTENT = 1 << 16
_MAX_MACS = 1 << 42
_MAX_DEPTH = 8


class RecordError(TvmconvError):
    """A line of a tuning log that cannot be used; the message says what is wrong with it."""


@dataclass(frozen=True)
class Record:
    """A config that beat the untuned choice on one machine.

    Parameters
    ----------
    workload
        The problem.
    machine
        The fields of :class:`~tvmconv.machine.Machine` it was tuned for.
    algorithm, config
        The kernel.
    samples
        Seconds of one call, every sample kept.
    default_algorithm, default_config, default_samples
        The untuned choice, measured in turn with the kernel.
    verification
        ``error`` (max|error| / max|reference| against float64) and the ``limit`` it had to keep.
    device
        Which processor measured: its name, and the RPC key where it was remote.
    versions, date, tuner
        Provenance: package versions, ISO date, and space, seed and trials of the search.
    extra
        Fields of newer versions; kept when the record is written again.
    """

    workload: Conv2dWorkload
    machine: Mapping[str, Any]
    algorithm: str
    config: Config
    samples: tuple[float, ...]
    default_algorithm: str
    default_config: Config
    default_samples: tuple[float, ...]
    verification: Mapping[str, Any]
    device: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    tuner: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Median sample of the kernel."""
        return median(self.samples)

    @property
    def default_seconds(self) -> float:
        """Median sample of the untuned choice."""
        return median(self.default_samples)

    @property
    def speedup(self) -> float:
        """Times faster than the untuned choice."""
        return self.default_seconds / self.seconds

    @property
    def error(self) -> float:
        """Measured max|error| / max|reference|."""
        return float(self.verification["error"])

    @property
    def key(self) -> tuple[str, tuple[Any, ...], str]:
        """What two records must share to compete: workload, machine, algorithm."""
        return (str(self.workload), machine_key(self.machine), self.algorithm)

    def to_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` restores an equal record."""
        return {
            **self.extra,
            "v": VERSION,
            "workload": str(self.workload),
            "machine": dict(self.machine),
            "algorithm": self.algorithm,
            "config": self.config.to_json(),
            "samples": list(self.samples),
            "default": {
                **self.extra.get("default", {}),
                "algorithm": self.default_algorithm,
                "config": self.default_config.to_json(),
                "samples": list(self.default_samples),
            },
            "verification": dict(self.verification),
            "device": dict(self.device),
            "versions": dict(self.versions),
            "date": self.date,
            "tuner": dict(self.tuner),
        }

    def to_line(self) -> str:
        """The line of a log file, without its end."""
        return json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=True, allow_nan=False)

    @classmethod
    def from_json(cls, data: Any) -> Record:
        """Inverse of :meth:`to_json`; nothing in ``data`` is trusted.

        Raises
        ------
        RecordError
            If a field is missing, of another type, or out of range.
        """
        _object(data, "record")
        version = data.get("v")
        if type(version) is not int or not 1 <= version <= VERSION:
            raise RecordError(f"v={version!r}; this tvmconv reads records up to {VERSION}")
        _depth(data, _MAX_DEPTH)
        default = _object(data.get("default"), "default")
        known = _FIELDS | {"default"}
        extra = {name: value for name, value in data.items() if name not in known}
        if inner := {k: v for k, v in default.items() if k not in _DEFAULT_FIELDS}:
            extra["default"] = inner
        verification = _object(data.get("verification"), "verification")
        for name in ("error", "limit"):
            _number(verification.get(name), f"verification.{name}")
        if verification["error"] > verification["limit"]:
            raise RecordError(
                f"its error {verification['error']:.3g} exceeds the limit "
                f"{verification['limit']:.3g} that it had to keep"
            )
        return cls(
            workload=_workload(data.get("workload")),
            machine=_machine(data.get("machine")),
            algorithm=_name(data.get("algorithm"), "algorithm"),
            config=_config(data.get("config"), "config"),
            samples=_samples(data.get("samples"), "samples"),
            default_algorithm=_name(default.get("algorithm"), "default.algorithm"),
            default_config=_config(default.get("config"), "default.config"),
            default_samples=_samples(default.get("samples"), "default.samples"),
            verification=verification,
            device=_object(data.get("device", {}), "device"),
            versions=_object(data.get("versions", {}), "versions"),
            date=_name(data.get("date", ""), "date", empty=True),
            tuner=_object(data.get("tuner", {}), "tuner"),
            extra=extra,
        )

    @classmethod
    def from_line(cls, line: str | bytes) -> Record:
        """Read one line of a log.

        Raises
        ------
        RecordError
            If the line is too long, is not JSON, or holds no valid record.
        """
        size = len(line) if isinstance(line, bytes) else len(line.encode("utf-8", "replace"))
        if size > MAX_LINE_BYTES:
            raise RecordError(f"{size} bytes; a line may have {MAX_LINE_BYTES}")
        try:
            data = json.loads(line, parse_constant=_no_constant, object_pairs_hook=_pairs)
        except RecordError:
            raise
        except (ValueError, RecursionError) as error:
            raise RecordError(f"not JSON: {error}") from None
        return cls.from_json(data)


_FIELDS = {
    *("v", "workload", "machine", "algorithm", "config", "samples", "verification"),
    *("device", "versions", "date", "tuner"),
}
_DEFAULT_FIELDS = {"algorithm", "config", "samples"}
_MACHINE_TEXT = ("family", "isa", "mcpu")
_MACHINE_SIZES = ("lanes", "vector_registers", "l1d_bytes", "l2_bytes", "l3_bytes", "cores")


def machine_facts(machine: Machine) -> dict[str, Any]:
    """What a record keeps of a machine: enough to tell equal, near and foreign ones apart."""
    names = ("name", *_MACHINE_TEXT, *_MACHINE_SIZES)
    return {name: getattr(machine, name) for name in names}


def machine_key(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for machines that a schedule cannot tell apart; the preset's name does not count."""
    return tuple(facts[name] for name in (*_MACHINE_TEXT, *_MACHINE_SIZES))


def is_near(facts: Mapping[str, Any], machine: Machine) -> bool:
    """Same instruction set, registers and threads; caches and processor name may differ."""
    same = ("family", "isa", "lanes", "vector_registers", "cores")
    return all(facts[name] == getattr(machine, name) for name in same)


def _no_constant(text: str) -> Any:
    raise RecordError(f"{text} is no number")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise RecordError("a field stands twice")
    return data


def _depth(value: Any, left: int) -> None:
    if not isinstance(value, dict | list):
        return
    if left == 0:
        raise RecordError(f"nested deeper than {_MAX_DEPTH} levels")
    for item in value.values() if isinstance(value, dict) else value:
        _depth(item, left - 1)


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(f"{name} must be an object")
    return value


def _name(value: Any, name: str, empty: bool = False) -> str:
    if not isinstance(value, str) or len(value) > _MAX_NAME or not (value or empty):
        raise RecordError(f"{name} must be a text of at most {_MAX_NAME} characters")
    if not value.isprintable():
        raise RecordError(f"{name} holds unprintable characters")
    return value


def _number(value: Any, name: str) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= 1 or not math.isfinite(value):
        raise RecordError(f"{name} must be a number from 0 to 1")
    return float(value)


def _samples(value: Any, name: str) -> tuple[float, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_SAMPLES:
        raise RecordError(f"{name} must list 1 to {_MAX_SAMPLES} seconds")
    for sample in value:
        good = isinstance(sample, int | float) and not isinstance(sample, bool)
        if not good or not 0 < sample < _MAX_SECONDS:
            raise RecordError(f"{name} holds {str(sample)[:40]!r}, which is no time in seconds")
    return tuple(float(sample) for sample in value)


def _config(value: Any, name: str) -> Config:
    data = _object(value, name)
    if len(data) > _MAX_KNOBS:
        raise RecordError(f"{name} has {len(data)} knobs; at most {_MAX_KNOBS} are read")
    for knob, setting in data.items():
        _name(knob, f"{name} knob")
        if isinstance(setting, str):
            _name(setting, f"{name}.{knob}", empty=True)
        elif not isinstance(setting, int) or abs(setting) >= 1 << 31:
            raise RecordError(f"{name}.{knob} must be a small integer, a text or a boolean")
    return Config.from_json(data)


def _workload(value: Any) -> Conv2dWorkload:
    text = _name(value, "workload")
    try:
        workload = Conv2dWorkload.parse(text)
    except (TvmconvError, ValueError, OverflowError) as error:
        raise RecordError(f"workload: {str(error)[:_MAX_NAME]}") from None
    extents = (
        *(workload.batch, workload.in_channels, workload.out_channels),
        *(workload.in_height, workload.in_width, workload.kernel_h, workload.kernel_w),
        *(workload.pad_top, workload.pad_left, workload.pad_bottom, workload.pad_right),
    )
    if max(extents) > _MAX_EXTENT or workload.macs > _MAX_MACS:
        raise RecordError(f"workload {text} is larger than any that is tuned")
    if not all(math.isfinite(p) for step in workload.epilogue for p in step.params):
        raise RecordError(f"workload {text}: an epilogue parameter is not finite")
    return workload


def _machine(value: Any) -> dict[str, Any]:
    facts = _object(value, "machine")
    for name in _MACHINE_TEXT:
        _name(facts.get(name), f"machine.{name}")
    for name in _MACHINE_SIZES:
        size = facts.get(name)
        if type(size) is not int or not 0 <= size < 1 << 48:
            raise RecordError(f"machine.{name} must be a size")
    return facts
