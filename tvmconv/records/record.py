"""One line of a tuning log: a verified, measured improvement over the untuned choice.

A record is plain JSON and never holds code. It states the kernel (workload, machine, algorithm,
knob values), every sample of the kernel and of the default, the verification, and the origin. The
kernel of MetaSchedule has a trace, too: a list of known schedule primitives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.plain_data import finite, no_number
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.records import fields
from tvmconv.records.fields import MACHINE_SIZES, MACHINE_TEXT, RecordError

VERSION = 1
MAX_LINE_BYTES = 64 * 1024
# LLVM's names of feature levels, which are not kinds of CPUs
_LEVELS = ("x86-64-v3", "x86-64-v4")
# fewer samples have no outliers
_FENCED = 4


@dataclass(frozen=True)
class Record:
    """A config that beat the untuned choice on one machine.

    Parameters
    ----------
    workload
        The problem.
    machine
        The fields of :class:`~tvmconv.machines.record.Machine` it was tuned for.
    algorithm, config
        The kernel.
    samples
        Seconds of one call, every sample kept.
    default_algorithm, default_config, default_samples
        The untuned choice, measured in interleaved runs with the kernel.
    verification
        ``error`` (max|error| / max|reference| against float64) and the ``limit`` it had to keep.
    device
        The processor that measured, and the RPC key of a remote one. ``estimate`` describes the
        method of samples that were estimated.
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
        return _median_ratio(self.default_samples, self.samples)

    @property
    def relative_seconds(self) -> float:
        """Time over the time of the untuned choice; a hostile log may make either ratio zero."""
        return _median_ratio(self.samples, self.default_samples)

    @property
    def outliers(self) -> int:
        """How many samples of the kernel are far above the others."""
        return outliers(self.samples)

    @property
    def error(self) -> float:
        """Measured max|error| / max|reference|."""
        return float(self.verification["error"])

    @property
    def estimated(self) -> bool:
        """Whether the samples are estimates; such records never compete with measured ones."""
        return bool(self.device.get("estimate"))

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for records that compete: workload, machine, algorithm, origin."""
        return (str(self.workload), machine_key(self.machine), self.algorithm, self.estimated)

    def to_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` restores an equal record."""
        return {
            **self.extra,
            "v": VERSION,
            "workload": str(self.workload),
            "machine": dict(self.machine),
            "algorithm": self.algorithm,
            "config": dict(self.config),
            **({"trace": json.loads(self.config.trace)} if self.config.trace else {}),
            "samples": list(self.samples),
            "default": {
                **self.extra.get("default", {}),
                "algorithm": self.default_algorithm,
                "config": dict(self.default_config),
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

        Raises ``RecordError`` if a field is missing, of another type, or out of range.
        """
        fields.as_object(data, "record")
        version = data.get("v")
        if type(version) is not int or not 1 <= version <= VERSION:
            raise RecordError(f"v={version!r}; expected a version up to {VERSION}")
        fields.check_depth(data)
        default = fields.as_object(data.get("default"), "default")
        known = _FIELDS | {"default"}
        extra = {name: value for name, value in data.items() if name not in known}
        if inner := {k: v for k, v in default.items() if k not in _DEFAULT_FIELDS}:
            extra["default"] = inner
        verification = fields.as_object(data.get("verification"), "verification")
        for name in ("error", "limit"):
            fields.check_fraction(verification.get(name), f"verification.{name}")
        if verification["error"] > verification["limit"]:
            raise RecordError(
                f"its error {verification['error']:.3g} exceeds the limit "
                f"{verification['limit']:.3g}"
            )
        config = fields.as_config(data.get("config"), "config")
        return cls(
            workload=fields.as_workload(data.get("workload")),
            machine=fields.as_machine(data.get("machine")),
            algorithm=fields.as_name(data.get("algorithm"), "algorithm"),
            config=config.with_trace(fields.as_trace(data.get("trace"))),
            samples=fields.as_samples(data.get("samples"), "samples"),
            default_algorithm=fields.as_name(default.get("algorithm"), "default.algorithm"),
            default_config=fields.as_config(default.get("config"), "default.config"),
            default_samples=fields.as_samples(default.get("samples"), "default.samples"),
            verification=verification,
            device=fields.as_object(data.get("device", {}), "device"),
            versions=fields.as_object(data.get("versions", {}), "versions"),
            date=fields.as_name(data.get("date", ""), "date", empty=True),
            tuner=fields.as_object(data.get("tuner", {}), "tuner"),
            extra=extra,
        )

    @classmethod
    def from_line(cls, line: str | bytes) -> Record:
        """Read one line of a log.

        Raises ``RecordError`` if the line is too long, is not JSON, or holds no valid record.
        """
        size = len(line) if isinstance(line, bytes) else len(line.encode("utf-8", "replace"))
        if size > MAX_LINE_BYTES:
            raise RecordError(f"the line has {size} bytes; the limit is {MAX_LINE_BYTES}")
        try:
            data = json.loads(
                line,
                parse_constant=no_number,
                parse_float=finite,
                object_pairs_hook=fields.unique_fields,
            )
        except RecordError:
            raise
        except (ValueError, RecursionError) as error:
            raise RecordError(f"not JSON: {error}") from None
        return cls.from_json(data)


def paired_ratios(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Samples of ``one`` over samples of ``other`` from the same interleaved run."""
    return [a / b for a, b in zip(one, other, strict=True)]


def _median_ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median of the ratios of interleaved runs.

    The medians of both may be of moments at which the machine had different speeds.
    """
    if len(one) != len(other):
        return median(one) / median(other)
    return median(paired_ratios(one, other))


def outliers(samples: Sequence[float]) -> int:
    """How many samples exceed the upper quartile by 1.5 times the quartiles' distance.

    They stay in the record: medians resist them, and their number shows how quiet the machine was.
    """
    if len(samples) < _FENCED:
        return 0
    low, _, high = quantiles(samples, n=4)
    return sum(sample > high + 1.5 * (high - low) for sample in samples)


_FIELDS = {
    *("v", "workload", "machine", "algorithm", "config", "trace", "samples", "verification"),
    *("device", "versions", "date", "tuner"),
}
_DEFAULT_FIELDS = {"algorithm", "config", "samples"}


def machine_facts(machine: Device) -> dict[str, Any]:
    """The fields of a machine in a record, which tell equal, near and foreign machines apart."""
    names = ("name", *MACHINE_TEXT, *MACHINE_SIZES)
    return {name: machine.record_facts.get(name, getattr(machine, name, None)) for name in names}


def machine_key(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for machines that a schedule cannot tell apart; the preset's name does not count."""
    return tuple(facts[name] for name in (*MACHINE_TEXT, *MACHINE_SIZES))


def runs_alike(facts: Mapping[str, Any], machine: Device) -> bool:
    """Whether a machine runs the kernels of a record: same instructions, registers and threads."""
    same = ("family", "isa", "lanes", "vector_registers", "cores")
    here = machine_facts(machine)
    return all(facts[name] == here[name] for name in same)


def is_near(facts: Mapping[str, Any], machine: Device) -> bool:
    """Whether a machine is of the kind that a record is for; its caches may differ.

    The kind of a CPU is LLVM's name of it; a record for a feature level is for every kind. The kind
    of a GPU is its compute capability with the number of multiprocessors.
    """
    if facts["family"] != CudaMachine.family:
        kinds = (machine_facts(machine)["mcpu"], *_LEVELS)
        return facts["mcpu"] in kinds and runs_alike(facts, machine)
    return runs_alike(facts, machine)
