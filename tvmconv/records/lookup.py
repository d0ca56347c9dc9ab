"""Which record a build uses: the search path, and the configs of one workload and machine.

Nothing here imports TVM: a look-up costs a file's time stamp and a dictionary access.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from tvmconv.core.arguments import file_path
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError, TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.records.logfile import LOGGER, NEVER, check_log, read_log
from tvmconv.records.record import Record, is_near, machine_facts, machine_key
from tvmconv.records.store import best

ENVIRONMENT = "TVMCONV_TUNING_LOGS"

# predictions are good to about this: a config from elsewhere must not look slower than that
_NEAR_TOLERANCE = 1.1


@dataclass(frozen=True)
class Tuned:
    """A record's config as a candidate of one build.

    The knob values in ``config`` passed the schedule's check for the build's machine. ``ratio`` is
    its time over the time of the default, both measured, or both estimated. The default's predicted
    cycles times ``ratio`` are comparable with predictions. ``source`` is text for ``explain``:
    file, date, gain, and whether the machine is a near one. A ``near`` record was measured on
    another machine with the same instruction set.
    """

    config: Config
    ratio: float
    default_algorithm: str
    default_config: Config
    source: str
    near: bool


def user_folder() -> Path:
    """Where ``tvmconv tune`` writes by default and every build looks."""
    from platformdirs import user_config_path

    return user_config_path("tvmconv", appauthor=False) / "tuning_logs"


def shipped_folder() -> Path:
    """The logs that come with the package."""
    found = find_spec("tvmconv.tuning_logs")
    places = found.submodule_search_locations if found else None
    return Path(places[0]) if places else Path(__file__).parent


def default_log(machine: Device, estimated: bool = False) -> Path:
    """The user's log of a target, for measured or for estimated records."""
    return user_folder() / f"{machine.name}{'.estimated' * estimated}.jsonl"


def search_path(log: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """Log files in the order of preference; ``log`` is the first, and ``"none"`` disables all logs.

    Raises ``TvmconvError`` if the given file does not exist or holds no record.
    """
    first = []
    if log is not None:
        path = file_path(log, "log", ConfigError)
        if str(path) == NEVER:
            return ()
        try:
            found = path.is_file()
        except OSError:  # a name too long
            found = False
        if not found:
            raise TvmconvError(
                f"the tuning log {path} does not exist. Write it with tune --tuning-log."
            )
        check_log(path)
        first.append(path.resolve())
    given = os.environ.get(ENVIRONMENT)
    places = [user_folder()] if given is None else [Path(p) for p in given.split(os.pathsep) if p]
    if NEVER in (str(place) for place in places):
        return tuple(first)
    for place in (*places, shipped_folder()):
        first += sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    return tuple(dict.fromkeys(path for path in first if path.is_file()))


def tuned(
    workload: Conv2dWorkload, machine: Device, algorithm: str, logs: Sequence[Path]
) -> tuple[Tuned, ...]:
    """Configs that logs hold for one algorithm: the best of the first log that has any.

    Records of this machine are preferred to records of a near machine. Next, records of the same
    workload are preferred to records with another epilogue, which hardly changes what is fast.

    Estimated records are used for this machine only. If any algorithm has a measured record of the
    convolution here, estimates are ignored: their gains are not comparable with measured gains.

    If the configs of a schedule differ in their numerical error, the best of each error is
    returned. ``logs`` come from :func:`search_path`.
    """
    for near, estimated in ((False, False), (False, True), (True, False)):
        if estimated and _measured_here(workload, machine, logs):
            continue
        for exact in (True, False):
            for path in logs:
                records = _index(path).get((str(workload.with_epilogue()), algorithm), ())
                alike = [
                    r
                    for r in records
                    if (r.workload == workload) == exact and r.estimated == estimated
                ]
                if found := _usable_of(alike, path, workload, machine, near):
                    return found
    return ()


def _measured_here(workload: Conv2dWorkload, machine: Device, logs: Sequence[Path]) -> bool:
    """Whether a log holds a measured record of a convolution for this very machine."""
    plain, here = str(workload.with_epilogue()), machine_key(machine_facts(machine))
    return any(
        name == plain and any(not r.estimated and machine_key(r.machine) == here for r in records)
        for path in logs
        for (name, _), records in _index(path).items()
    )


def _usable_of(
    records: Sequence[Record],
    path: Path,
    workload: Conv2dWorkload,
    machine: Device,
    near: bool,
) -> tuple[Tuned, ...]:
    exact = machine_key(machine_facts(machine))
    usable = []
    for record in records:
        same = machine_key(record.machine) == exact
        if same == near or (near and not is_near(record.machine, machine)):
            continue
        try:
            if record.config.trace and (near or record.workload != workload):
                raise ConfigError("a trace serves its own workload and machine only")
            usable.append(_usable(record, machine, near))
        except TvmconvError as error:
            LOGGER.info("%s: record of %s not used: %s", path, workload, error)
    if not usable:
        return ()
    from tvmconv.records.space import error_class

    # near machines may be several: their records compete with each other
    chosen = best(usable, lambda record: (record.algorithm, *error_class(record)[-2:]))
    return tuple(_tuned(record, path, workload, near) for record in chosen)


def _usable(record: Record, machine: Device, near: bool) -> Record:
    """The record with all knobs; raises :class:`ConfigError` if a build cannot use it."""
    from tvmconv.kernels import registry
    from tvmconv.records.space import foreign_space, validated

    if reason := foreign_space(record):
        raise ConfigError(reason)
    try:
        record = validated(record, machine)
        module = registry.schedule(record.algorithm, machine)
        if near and module is not None:
            default = _default_like(record, machine)
            own = module.predicted_cycles(record.workload, machine, record.config)
            if own > _NEAR_TOLERANCE * module.predicted_cycles(record.workload, machine, default):
                raise ConfigError(
                    "it comes from a similar CPU, and is predicted to be slower on this one"
                )
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ConfigError(f"the schedule cannot read its knobs: {error!r}") from None
    return record


def _default_like(record: Record, machine: Device) -> Config:
    """The default of the record's algorithm, in its precision."""
    from tvmconv.kernels import registry

    w, algorithm = record.workload, registry.algorithm(record.algorithm, machine.kind)
    default = registry.default_config(record.algorithm, w, machine)
    asked = algorithm.precision(record.config)
    if algorithm.precision(default) == asked:
        return default
    offers = registry.offers(record.algorithm, w, machine)
    return next((each for each in offers if algorithm.precision(each) == asked), default)


def _tuned(record: Record, path: Path, workload: Conv2dWorkload, near: bool) -> Tuned:
    device = str(record.device.get("cpu") or record.machine["mcpu"])
    place = f"near machine ({device})" if near else "this machine"
    if record.workload != workload:
        steps = "".join(f"+{step}" for step in record.workload.epilogue)
        place += f", epilogue {steps or 'empty'}"
    faster = "estimated to be " * record.estimated
    return Tuned(
        config=record.config,
        ratio=record.relative_seconds,
        default_algorithm=record.default_algorithm,
        default_config=record.default_config,
        source=(
            f"log {path.name} {record.date[:10]}, {place}, "
            f"{faster}{record.speedup:.2f} times faster than {record.default_algorithm}'s default"
            f"{', scheduled by MetaSchedule' if record.config.trace else ''}"
        ),
        near=near,
    )


def _index(path: Path) -> dict[tuple[str, str], tuple[Record, ...]]:
    try:
        status = path.stat()
    except OSError:
        return {}
    return _read(path, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=32)
def _read(
    path: Path, mtime: int, size: int, inode: int
) -> dict[tuple[str, str], tuple[Record, ...]]:
    found: dict[tuple[str, str], list[Record]] = {}
    for record in read_log(path).records:
        plain = str(record.workload.with_epilogue())
        found.setdefault((plain, record.algorithm), []).append(record)
    return {key: tuple(records) for key, records in found.items()}
