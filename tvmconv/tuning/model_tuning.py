"""``tvmconv.tune``: the command ``tvmconv tune`` for a model in Python."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING

from tvmconv.core.arguments import file_path, function, shown, whole
from tvmconv.core.errors import ConfigError
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.targets import TargetLike, resolve_device
from tvmconv.records.logfile import append, check_destination
from tvmconv.records.lookup import default_log
from tvmconv.records.space import KNOBS, SPACES
from tvmconv.remote import parse_address
from tvmconv.selection.policy import check_algorithms, check_precision
from tvmconv.tuning.cost_model import check_packages
from tvmconv.tuning.pool import Pool
from tvmconv.tuning.remote import make_measurer
from tvmconv.tuning.reports import tune_report
from tvmconv.tuning.session import Progress, check_device, check_host, collect, tunable
from tvmconv.tuning.session import tune as tune_workloads
from tvmconv.tuning.settings import Settings

if TYPE_CHECKING:
    from tvmconv.building import ModelLike
    from tvmconv.core.tensor import ShapeLists
    from tvmconv.report.document import Report

_MOST = 1 << 31


def tune(
    model: ModelLike,
    target: TargetLike = "native",
    *,
    trials: int = 0,
    trials_per_layer: int = 64,
    time_budget: float = math.inf,
    early_stop: int = 0,
    seed: int = 0,
    search: str = "knobs",
    log: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
    shapes: ShapeLists | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    algorithms: str | Sequence[str] | None = None,
    error_budget: float | None = None,
    fold_budget: int | None = None,
    requantize: str = "float",
    precision: str = "float32",
    rpc_tracker: str = "",
    rpc_keys: str | Sequence[str] = (),
) -> Report:
    """Search faster kernels for a model's convolutions and fully connected layers.

    Every candidate is verified. The log gets a record only if a second measurement confirms that
    the candidate is faster than the default by more than the noise. The search can be stopped at
    any time, also by an exception of ``progress``. The same call continues from the log, and from
    the trials next to it.

    Parameters
    ----------
    model
        As for :func:`tvmconv.build`.
    target
        One target of :func:`tvmconv.build`.
    trials
        Maximum number of candidates in total; 0 for no limit.
    trials_per_layer
        Maximum number of candidates of each layer.
    time_budget
        Maximum search time in seconds.
    early_stop
        Stop a layer after this number of candidates without improvement; 0 never.
    seed
        Seed of the search.
    search
        ``"knobs"`` for the schedule parameters, ``"metaschedule"`` for the rules of TVM's
        MetaSchedule, or ``"both"`` to compare them.
    log
        The file to append records to; by default a log of yours that every build reads.
    progress
        Called as ``progress(layer, done, total)`` after each candidate, and at the end of a layer.
        The numbers count the candidates of all layers.
    algorithms
        Names of algorithms to search, or one name; by default all. Layers that none of them
        computes keep their default. Fully connected layers on CPUs have ``"dense"`` and
        ``"dense_strassen"``.
    shapes, outputs, threads, error_budget, fold_budget, requantize, precision
        As for :func:`tvmconv.build`.
    rpc_tracker, rpc_keys
        ``HOST:PORT`` of a TVM RPC tracker and keys of its devices, which then measure.

    Returns
    -------
    Report
        Status, speed-up and trials of each layer: printable as text, and convertible to JSON.

    Raises
    ------
    ConfigError
        If an argument is invalid.
    ArtifactError
        If this machine cannot run code for the target.
    TvmconvError
        If the log cannot be written, or no device is left.

    Examples
    --------
    >>> import tvmconv
    >>> report = tvmconv.tune("resnet18.onnx", trials=500)  # doctest: +SKIP
    >>> print(report)  # doctest: +SKIP
    """
    if not isinstance(search, str) or search not in SPACES:
        raise ConfigError(f"search={shown(search)} is unknown. Use {', '.join(SPACES)}.")
    if isinstance(time_budget, bool) or not isinstance(time_budget, Real) or not time_budget > 0:
        raise ConfigError(f"time_budget={shown(time_budget)} must be a positive number of seconds.")
    address, keys = _address(rpc_tracker, rpc_keys)
    total = whole(trials, "trials", 0, _MOST, ConfigError)
    call = None if progress is None else function(progress, "progress")
    settings = Settings(
        trials=whole(trials_per_layer, "trials_per_layer", 1, _MOST, ConfigError),
        early_stop=whole(early_stop, "early_stop", 0, _MOST, ConfigError),
        seed=whole(seed, "seed", -_MOST, _MOST, ConfigError),
        error_budget=error_budget,
        precision=precision,
        requantize=requantize,
        algorithms=() if algorithms is None else check_algorithms(algorithms),
    )
    if isinstance(target, list | tuple):
        raise ConfigError(f"tune searches for one target, got {shown(target)}. Call it for each.")
    machine = resolve_device(target, threads)
    on_gpu = isinstance(machine, CudaMachine)
    if on_gpu and SPACES[search] != KNOBS:
        raise ConfigError(f"search={search!r} requires a CPU target, got {machine.name}.")
    check_precision(settings.policy, machine)
    check_packages()
    (check_device if address else check_host)(machine)
    path = default_log(machine) if log is None else file_path(log, "log", ConfigError)
    check_destination(path)
    found = collect(machine, [model], (), (), shapes, fold_budget, settings.policy, outputs)
    tasks, left = tunable(found, machine, settings)
    if log is not None:
        # builds can name the log if no layer gains
        append(path, [])
    start = time.monotonic()
    with Pool() as pool:
        outcomes = tune_workloads(
            tasks,
            machine,
            make_measurer(pool, on_gpu, address, keys),
            path,
            settings,
            total_trials=total,
            time_budget=float(time_budget),
            space=SPACES[search],
            observe=None if call is None else _Counter(call),
        )
    return tune_report(tasks, outcomes, path, time.monotonic() - start, left=left)


class _Counter:
    """Calls a user's function with the candidates of all layers."""

    def __init__(self, call: Callable[[str, int, int], object]) -> None:
        self._call = call
        self._done = 0
        self._before = 0
        self._number = 0

    def __call__(self, state: Progress) -> None:
        """Count the candidates of earlier layers, and report a candidate."""
        if state.number != self._number:
            self._number, self._before = state.number, self._done
        self._done = self._before + state.outcome.trials
        self._call(state.task.name, self._done, self._done + state.trials_left)


def _address(tracker: str, keys: str | Sequence[str]) -> tuple[tuple[str, int] | None, list[str]]:
    """Host and port of a tracker, or None, and the keys of its devices."""
    names = [keys] if isinstance(keys, str) and keys else keys
    texts = isinstance(names, Sequence) and all(isinstance(key, str) and key for key in names)
    if not isinstance(tracker, str) or not texts:
        raise ConfigError(
            f"rpc_tracker={shown(tracker)} must be a text such as 'lab:9190', and "
            f"rpc_keys={shown(keys)} a list of keys"
        )
    if bool(tracker) != bool(names):
        raise ConfigError("rpc_tracker= and rpc_keys= require each other. Give both or none.")
    return (parse_address(tracker, "rpc_tracker") if tracker else None), list(names)
