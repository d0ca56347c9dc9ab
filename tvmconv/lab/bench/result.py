"""The record of a bench: every sample, plain data, readable back for comparisons."""

from __future__ import annotations

import gzip
import io
import json
import statistics
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvmconv.core.errors import InputError
from tvmconv.core.files import read_regular
from tvmconv.report.document import SCHEMA_VERSION
from tvmconv.runtime.timing import Timing

MAX_FILE_BYTES = 1 << 28
PEAK = "peak"
FLOAT32 = "float32"
OWN = "tvmconv"
_QUARTILES = 4
# Baselines with Winograd in FP32 reach 3e-3; anything beyond 1e-2 is wrong.
WRONG_ABOVE = 1e-2
# INT8 kernels of baselines saturate: by up to 14 of 255 steps with full-range weights. They are
# timed, and the share of outputs that differ is shown.
SATURATED_BELOW = 0.25


def wrong_above(quantized: bool, facts: Mapping[str, Any]) -> float:
    """The error above which outputs are wrong.

    ``facts`` are the worker's; ``differing`` is among them for integer outputs.
    """
    return SATURATED_BELOW if quantized or "differing" in facts else WRONG_ABOVE


@dataclass(frozen=True)
class Entry:
    """One implementation on one case.

    Parameters
    ----------
    label
        Column name: ``peak``, ``tvmconv``, ``tvmconv direct``, or a baseline's name.
    status
        ``ok``; ``absent`` (not installed), ``unsupported`` (cannot express the case), ``failed``
        (crash, hang or exception) or ``wrong`` (error above :data:`WRONG_ABOVE`).
    version, info
        Version of the library, and its choices, where it reports them.
    message
        Why it is not ``ok``.
    error
        Largest ``max|y - reference| / max|reference|``; None where nothing is compared.
    operations
        Floating-point operations of one call.
    rounds
        Seconds of every call, one list a round.
    foreign
        CPUs that other programs used meanwhile, one number a round.
    facts
        Our kernels: ``multiplies`` of a call, ``workspace_bytes``, ``packed_weight_bytes``,
        ``pack_seconds`` of packing the weights once, ``knobs``, ``data_layout``. On GPUs
        ``precision``, to which operands are rounded. With ``--memory``: ``call_bytes``, the growth
        in the first call; None where it is unknown. With ``--load``: ``file_bytes``,
        ``load_seconds`` and ``first_call_seconds`` in a fresh process, and ``load_bytes``, its
        growth.
    stages
        Seconds by stage of calls that end after it, the minimum of each round; the last stage ends
        with the whole call.
    cold
        Seconds of calls with everything in memory, one list a round.
    cold_weights
        The same with inputs and outputs in the caches.
    rates
        With ``--streams``: calls in a second of all streams, one number a round.
    """

    label: str
    status: str
    version: str = ""
    info: str = ""
    message: str = ""
    error: float | None = None
    operations: int = 0
    rounds: list[list[float]] = field(default_factory=list)
    foreign: list[float] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, list[float]] = field(default_factory=dict)
    cold: list[list[float]] = field(default_factory=list)
    cold_weights: list[list[float]] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    @property
    def samples(self) -> list[float]:
        """Seconds of every call."""
        return [sample for samples in self.rounds for sample in samples]

    @property
    def best(self) -> float | None:
        """Fastest call in seconds."""
        return min(self.samples, default=None)

    @property
    def rate(self) -> float | None:
        """Calls in a second of all streams in the best round."""
        return max(self.rates, default=None)

    @property
    def median(self) -> float | None:
        """Median call in seconds."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def timing(self) -> Timing | None:
        """The figures of ``run``: percentiles and calls in a second."""
        return Timing(tuple(self.samples)) if self.samples else None

    @property
    def spread(self) -> float | None:
        """Distance of the quartiles over the median; None of fewer than four calls."""
        if len(self.samples) < _QUARTILES:
            return None
        low, middle, high = statistics.quantiles(self.samples, n=_QUARTILES)
        return (high - low) / middle

    @property
    def gflops(self) -> float | None:
        """Rate of the fastest call in 1e9 nominal operations per second."""
        return self.operations / self.best * 1e-9 if self.best and self.operations else None

    @property
    def precision(self) -> str:
        """The precision to which it rounds operands."""
        return self.facts.get("precision") or FLOAT32

    def share_of(self, peak: float | None) -> float | None:
        """Its rate over the probe's FP32 rate; None on tensor cores."""
        rate = self.gflops if self.precision == FLOAT32 else None
        return rate / peak if rate and peak else None

    @property
    def real_gflops(self) -> float | None:
        """Rate of the executed MACs, two operations each."""
        multiplies = self.facts.get("multiplies")
        return 2e-9 * multiplies / self.best if self.best and multiplies else None

    @property
    def cold_best(self) -> float | None:
        """Fastest call with everything in memory."""
        return min((s for samples in self.cold for s in samples), default=None)

    @property
    def cold_weights_best(self) -> float | None:
        """Fastest call with weights in memory and activations in the caches."""
        return min((s for samples in self.cold_weights for s in samples), default=None)

    @property
    def stage_seconds(self) -> dict[str, float]:
        """Seconds of each stage: the difference between calls that end after it and before it."""
        seconds: dict[str, float] = {}
        before = 0.0
        for name, samples in self.stages.items():
            after = min(samples, default=before)
            seconds[name] = max(after - before, 0.0)
            before = max(after, before)
        return seconds


@dataclass(frozen=True)
class CaseResult:
    """All implementations on one case at one thread count; ``count`` is a layer's multiplicity.

    ``skipped`` says why nothing was measured. ``precision`` is the allowed rounding of operands.
    ``streams`` is the number of calls that ran at the same time, each with ``threads``. It is 0 for
    single calls, one after another. A call computes ``images``.
    """

    name: str
    kind: str
    problem: str
    flops: int
    count: int
    threads: int
    entries: tuple[Entry, ...]
    skipped: str = ""
    precision: str = FLOAT32
    streams: int = 0
    images: int = 1

    def entry(self, label: str) -> Entry | None:
        """The entry of this name."""
        return next((entry for entry in self.entries if entry.label == label), None)

    @property
    def peak_gflops(self) -> float | None:
        """The machine's rate, measured in the same rounds."""
        entry = self.entry(PEAK)
        return entry.gflops if entry else None

    def ranked(self, own: bool) -> list[Entry]:
        """Correct entries of tvmconv, or of baselines; fastest first."""
        found = [
            entry
            for entry in self.entries
            if entry.status == "ok"
            and entry.best is not None
            and entry.label != PEAK
            # an entry that is less exact than allowed does not compete
            and entry.precision in (FLOAT32, self.precision)
            and entry.label.startswith(OWN) == own
        ]
        return sorted(found, key=lambda entry: entry.best or 0.0)


@dataclass(frozen=True)
class BenchResult:
    """A whole run with the state of the machine and the settings."""

    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    results: tuple[CaseResult, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` restores an equal record."""
        return {
            "schema": SCHEMA_VERSION,
            "kind": "bench",
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "results": [asdict(result) for result in self.results],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BenchResult:
        """Inverse of :meth:`to_json`; other keys are ignored."""
        results = []
        for item in data["results"]:
            entries = tuple(Entry(**entry) for entry in item["entries"])
            results.append(CaseResult(**{**item, "entries": entries}))
        return cls(data["machine"], data["settings"], tuple(results))


def joined(results: Sequence[BenchResult]) -> BenchResult:
    """Several runs of one machine as one; header and settings are the first one's.

    Raises :class:`InputError` if they come from different CPUs.
    """
    first = results[0]
    if others := {str(r.machine.get("cpu")) for r in results} - {str(first.machine.get("cpu"))}:
        raise InputError(
            f"cannot join results of different processors: {first.machine.get('cpu')} and "
            f"{', '.join(sorted(others))}; show each by itself"
        )
    cases = tuple(case for result in results for case in result.results)
    return BenchResult(first.machine, first.settings, cases)


def read_saved(path: Path) -> BenchResult:
    """Open a file that ``bench run --report`` wrote; a name in ``.gz`` is compressed.

    Raises :class:`InputError` if it is not such a file.
    """
    try:
        content = read_regular(path, MAX_FILE_BYTES, InputError)
        if path.suffix == ".gz":
            with gzip.open(io.BytesIO(content)) as file:
                content = file.read(MAX_FILE_BYTES)
        data = json.loads(content)
        if data["kind"] != "bench" or data["schema"] != SCHEMA_VERSION:
            raise ValueError(f"kind {data['kind']!r}, schema {data['schema']!r}")
        return BenchResult.from_json(data)
    except (ValueError, KeyError, TypeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path} was not written by 'tvmconv bench run --report' ({error})"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
