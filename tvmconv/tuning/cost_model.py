"""Predicts times of configs from those measured: gradient-boosted trees on knob features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.config import Config
from tvmconv.core.errors import TvmconvError
from tvmconv.kernels import registry
from tvmconv.records.space import Space

_ROUNDS = 60
_PARAMETERS = {
    "max_depth": 6,
    "eta": 0.2,
    "min_child_weight": 0,
    "objective": "reg:squarederror",
    "nthread": 1,
    "seed": 0,
    "verbosity": 0,
}


def check_packages() -> None:
    """Raise :class:`TvmconvError` where a package that only tuning needs is missing."""
    missing = [name for name in ("xgboost", "cloudpickle") if find_spec(name) is None]
    if missing:
        raise TvmconvError(
            f"tuning: missing Python packages {', '.join(missing)}. Expected the packages of the "
            "extra 'tune'. Install them by: pip install 'tvmconv[tune]'."
        )


def features(space: Space, configs: Sequence[Config]) -> npt.NDArray[np.float32]:
    """One row a config: knobs (integers also by their logarithm), and the analytic prediction.

    With the prediction the trees only have to learn its errors.
    """
    rows = [_row(space, config) for config in configs]
    return np.asarray(rows, np.float32)


def predicted(space: Space, config: Config) -> float:
    """The schedule's analytic cycles of a config."""
    module = registry.schedule(space.algorithm, space.machine)
    assert module is not None
    return module.predicted_cycles(space.workload, space.machine, config)


class CostModel:
    """Scores of configs, larger is faster; the analytic model until something was measured."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._trees: Any = None

    def fit(self, times: Mapping[Config, float]) -> None:
        """Learn from measured seconds; a failed config counts as far slower than the slowest."""
        import xgboost

        good = [t for t in times.values() if math.isfinite(t)]
        if len(good) < 4:
            return
        worst = 2 * max(good)
        labels = [-math.log(min(t, worst)) for t in times.values()]
        # slow times need no precision
        weights = [min(good) / min(t, worst) for t in times.values()]
        data = xgboost.DMatrix(features(self.space, list(times)), labels, weight=weights)
        self._trees = xgboost.train(_PARAMETERS, data, _ROUNDS)

    def scores(self, configs: Sequence[Config]) -> list[float]:
        """One number for each config."""
        if not configs:
            return []
        if self._trees is None:
            return [-math.log(max(predicted(self.space, c), 1e-12)) for c in configs]
        import xgboost

        data = xgboost.DMatrix(features(self.space, configs))
        return [float(score) for score in self._trees.predict(data)]


def _row(space: Space, config: Config) -> list[float]:
    row = [math.log(max(predicted(space, config), 1e-12))]
    for name, values in space.values.items():
        if all(type(v) is int for v in values):
            number = config.int(name)
            row += [float(number), math.log2(number + 1)]
        else:
            row += [float(config[name] == value) for value in values]
    return row
