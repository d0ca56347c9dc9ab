"""Results of interleaved measurements: gains, and the records of winners."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.records.record import Record, machine_facts, paired_ratios

_SMALLEST_GAIN = 0.01
_Z95 = 1.96


@dataclass(frozen=True)
class MeasuredChoice:
    """One kernel of an interleaved measurement."""

    algorithm: str
    config: Config
    samples: tuple[float, ...]
    error: float
    limit: float


def verification(workload: Conv2dWorkload, measured: MeasuredChoice) -> dict[str, Any]:
    """The verification of a kernel's result, as its record stores it."""
    reference = "int64" if workload.types.is_integer else "float64"
    return {"reference": reference, "error": measured.error, "limit": measured.limit}


def measured_record(
    workload: Conv2dWorkload,
    machine: Device,
    default: MeasuredChoice,
    winner: MeasuredChoice,
    **more: Any,
) -> Record:
    """The record of a winner; ``more`` are the tuner, the device, the versions and the date."""
    return Record(
        workload=workload,
        machine=machine_facts(machine),
        algorithm=winner.algorithm,
        config=winner.config,
        samples=winner.samples,
        default_algorithm=default.algorithm,
        default_config=default.config,
        default_samples=default.samples,
        verification=verification(workload, winner),
        **more,
    )


def improvements(seconds: Iterable[float]) -> list[tuple[int, float]]:
    """The trials that were faster than all before, with their seconds; trials count from 1.

    A failed trial has infinite seconds.
    """
    found: list[tuple[int, float]] = []
    best = math.inf
    for number, each in enumerate(seconds, 1):
        if each < best:
            best = each
            found.append((number, each))
    return found


def gain(default: Sequence[float], tuned: Sequence[float]) -> tuple[float, float]:
    """How many times faster: the median of the ratios of the rounds, and its lower 95 % bound.

    The bound is distribution-free: an order statistic of the ratios.
    """
    ratios = sorted(paired_ratios(default, tuned))
    count = len(ratios)
    low = math.floor(count / 2 - _Z95 * math.sqrt(count) / 2)
    return median(ratios), ratios[max(low, 0)]


def is_better(default: Sequence[float], tuned: Sequence[float]) -> bool:
    """Whether a gain is more than noise: its lower bound exceeds 1.01."""
    return gain(default, tuned)[1] > 1 + _SMALLEST_GAIN


def seems_better(default: Sequence[float], tuned: Sequence[float]) -> bool:
    """Whether the median promises such a gain, which more samples may confirm."""
    return gain(default, tuned)[0] > 1 + _SMALLEST_GAIN


def fastest_gains(
    default: MeasuredChoice, others: Sequence[MeasuredChoice]
) -> list[MeasuredChoice]:
    """The fastest choice of each algorithm that beats the default by more than the noise."""
    better = [measured for measured in others if is_better(default.samples, measured.samples)]
    better.sort(key=lambda measured: gain(default.samples, measured.samples))
    return list({measured.algorithm: measured for measured in better}.values())
