"""Measured properties of this host, kept in the user's configuration folder for later builds.

Each CPU and instruction set has its own file, because several machines may share a home folder.
Files are not trusted. An invalid file is reported once and ignored.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tvmconv.core.errors import TvmconvError
from tvmconv.core.files import unwritable
from tvmconv.machines.host import host_model
from tvmconv.machines.record import Machine, Rates
from tvmconv.machines.stored import read_rates

ENVIRONMENT = "TVMCONV_MACHINES"
NEVER = "none"
FORMAT, FORMAT_VERSION = "tvmconv-machine", 1

_LOGGER = logging.getLogger("tvmconv.machines")
_MOST_BYTES = 64 * 1024
_MOST_HERTZ = 1e11
_MOST_UNITS, _MOST_LATENCY = 16, 64


@dataclass(frozen=True)
class Saved:
    """Measured properties of one core, as in a file.

    ``cpu`` is the operating system's name of the CPU. ``hertz`` is the clock of the measurement,
    for reports only. Other fields are as in :class:`~tvmconv.machines.record.Machine`.
    """

    cpu: str
    isa: str
    mcpu: str
    rates: Rates
    fma_units: int
    fma_latency: int
    hertz: float

    @classmethod
    def of(cls, machine: Machine, hertz: float) -> Saved:
        """The result of :func:`~tvmconv.machines.probe.measure` on this host."""
        return cls(
            cpu=host_model(),
            isa=machine.isa,
            mcpu=machine.mcpu,
            rates=machine.rates,
            fma_units=machine.fma_units,
            fma_latency=machine.fma_latency,
            hertz=hertz,
        )

    @classmethod
    def from_json(cls, data: Any) -> Saved:
        """Read a file's contents; raises KeyError, TypeError or ValueError if they are invalid."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError("it is not a measured machine")
        if data.get("format_version") != FORMAT_VERSION:
            version = data.get("format_version")
            raise ValueError(f"it has format version {version!r}, not {FORMAT_VERSION}")
        texts = {name: data[name] for name in ("cpu", "isa", "mcpu")}
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError(f"{texts} are not strings")
        return cls(
            **texts,
            rates=read_rates(data["rates"]),
            fma_units=_count(data["fma_units"], "fma_units", _MOST_UNITS),
            fma_latency=_count(data["fma_latency"], "fma_latency", _MOST_LATENCY),
            hertz=_hertz(data["hertz"]),
        )

    def to_text(self) -> str:
        """The contents of the file."""
        data = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}
        return json.dumps(data, indent=1) + "\n"


def folder() -> Path | None:
    """The folder of measured machines; None if the user disables it."""
    given = os.environ.get(ENVIRONMENT)
    if given == NEVER:
        return None
    if given:
        return Path(given)
    from platformdirs import user_config_path

    return user_config_path("tvmconv", appauthor=False) / "machines"


def path_of(machine: Machine) -> Path | None:
    """The file for this host as a machine; None if the user disables saved measurements."""
    place = folder()
    return None if place is None else place / f"{machine.mcpu}-{machine.isa}.json"


def save(machine: Machine, hertz: float) -> Path:
    """Keep a measurement; builds for ``native`` then use it.

    Raises ``TvmconvError`` if the file cannot be written, or the user disables saved measurements.
    """
    path = path_of(machine)
    if path is None:
        raise TvmconvError(f"{ENVIRONMENT}={NEVER} disables saved measurements. Unset it first.")
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(Saved.of(machine, hertz).to_text())
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error, f"Name another folder in {ENVIRONMENT}.") from None
    return path


def forget(machine: Machine) -> Path | None:
    """Remove a measurement and return its file; None if there was none."""
    path = path_of(machine)
    if path is None or not path.exists():
        return None
    try:
        path.unlink()
    except OSError as error:
        raise TvmconvError(f"cannot remove {path}: {error.strerror}") from None
    return path


def saved(machine: Machine) -> Saved | None:
    """The measurement of this host for an instruction set, if there is one."""
    path = path_of(machine)
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    if path is None or status is None:
        return None
    found = _read(path, status.st_mtime_ns, status.st_size)
    mine = (host_model(), machine.isa, machine.mcpu)
    return found if found and (found.cpu, found.isa, found.mcpu) == mine else None


def as_measured(machine: Machine) -> Machine:
    """The machine model of this host with its measurement."""
    found = saved(machine)
    if found is None:
        return machine
    # files of older versions lack the rate of all cores, which no version measures
    all_memory = found.rates.all_memory or machine.rates.all_memory
    return replace(
        machine,
        rates=replace(found.rates, all_memory=all_memory),
        fma_units=found.fma_units,
        fma_latency=found.fma_latency,
    )


@lru_cache(maxsize=8)
def _read(path: Path, mtime: int, size: int) -> Saved | None:
    try:
        if size > _MOST_BYTES:
            raise ValueError(f"{size} bytes are too many")
        return Saved.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        reason = str(error.strerror)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
    _LOGGER.warning(
        "%s is not used (%s); measure again with 'tvmconv cpu --measure --keep', or remove it "
        "with 'tvmconv cpu --forget'",
        path,
        reason,
    )
    return None


def _count(value: Any, name: str, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{name}={value!r} must be a number from 1 to {most}")
    return int(value)


def _hertz(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < _MOST_HERTZ:
        raise ValueError(f"hertz={value!r} is not a clock frequency")
    return float(value)
