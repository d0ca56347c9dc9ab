"""The search space of a schedule: its knobs, the configs that fit, and what a log may ask for."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tvmconv.core.config import Config, KnobValue
from tvmconv.core.errors import ConfigError, TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.cuda import MACHINES as GPUS
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.presets import similar
from tvmconv.machines.record import Machine
from tvmconv.records.record import Record

# the search spaces whose records builds use: parameters of the schedules, MetaSchedule's rules
KNOBS, AUTO = "knobs", "auto"
# a search of both, which compares them
BOTH = "both"
# the names that users give to them
SPACES = {"knobs": KNOBS, "metaschedule": AUTO, "both": BOTH}
_ATTEMPTS = 200


@dataclass(frozen=True)
class Space:
    """All configs of one algorithm for one workload and machine.

    ``values`` has the values worth trying of each knob, which include the values of the schedule's
    own offers. A search begins with these offers, ``starts``. ``error_budget`` is the maximum
    estimate of max|error| / max|reference|. ``facts`` are properties of the weights, for which
    configs must be exact; None for any config. ``precision`` is the one other than FP32 to which
    operands may be rounded; empty for any.
    """

    workload: Conv2dWorkload
    machine: Device
    algorithm: str
    values: Mapping[str, tuple[KnobValue, ...]]
    starts: tuple[Config, ...]
    error_budget: float = math.inf
    facts: WeightFacts | None = None
    precision: str = ""

    @property
    def size(self) -> int:
        """Combinations of knob values, including combinations that do not fit."""
        return math.prod(map(len, self.values.values()))

    def fits(self, config: Config) -> bool:
        """Whether the schedule accepts a config, and it is as exact as it must be."""
        try:
            registry.check(self.algorithm, self.workload, self.machine, config)
        except ConfigError:
            return False
        algorithm = registry.algorithm(self.algorithm, self.machine.kind)
        if self.precision and algorithm.precision(config) not in ("", self.precision):
            return False
        if self.facts is not None:
            refused, _ = self.facts.refusal(
                self.algorithm, self.workload, self.machine.kind, config
            )
            if refused:
                return False
        estimate = algorithm.error_estimate(self.workload, self.machine, config)
        return estimate <= self.error_budget

    def sample(self, generator: random.Random) -> Config | None:
        """A random config that fits; None if none is found."""
        for _ in range(_ATTEMPTS):
            config = Config.of(**{k: generator.choice(v) for k, v in self.values.items()})
            if self.fits(config):
                return config
        return None

    def mutate(self, config: Config, generator: random.Random) -> Config | None:
        """A config with one or two knobs changed, ordered knobs mostly by one value."""
        for _ in range(_ATTEMPTS):
            changed = dict(config)
            free = [name for name, values in self.values.items() if len(values) > 1]
            for name in generator.sample(free, min(len(free), generator.choice((1, 1, 2)))):
                changed[name] = self._near_value(name, changed[name], generator)
            found = Config.of(**changed)
            if found != config and self.fits(found):
                return found
        return None

    def cross(self, one: Config, other: Config, generator: random.Random) -> Config | None:
        """Every knob from one of two parents; None if the child does not fit."""
        child = Config.of(**{k: generator.choice((one[k], other[k])) for k in self.values})
        return child if child not in (one, other) and self.fits(child) else None

    def _near_value(self, name: str, value: KnobValue, generator: random.Random) -> KnobValue:
        values = self.values[name]
        ordered = all(type(v) is int for v in values)
        if ordered and value in values and generator.random() < 0.7:
            place = values.index(value) + generator.choice((-1, 1))
            return values[min(max(place, 0), len(values) - 1)]
        return generator.choice([v for v in values if v != value])


@lru_cache(maxsize=256)
def make_space(
    workload: Conv2dWorkload,
    machine: Device,
    algorithm: str,
    error_budget: float = math.inf,
    facts: WeightFacts | None = None,
    precision: str = "",
) -> Space:
    """The space of an algorithm; without ``starts`` if none of its offers is exact enough.

    Raises ``ConfigError`` if the algorithm is unknown or cannot compute the workload on the
    machine.
    """
    names = registry.known(machine.kind)
    if algorithm not in names:
        raise ConfigError(f"algorithm {algorithm!r} is unknown. Choose from {', '.join(names)}.")
    module = registry.schedule(algorithm, machine)
    reason = registry.unavailable(algorithm, workload, machine)
    if reason or module is None:
        raise ConfigError(f"{algorithm} cannot compute {workload}: {reason}")
    starts = registry.offers(algorithm, workload, machine)
    values: dict[str, tuple[KnobValue, ...]] = {}
    for name, listed in module.KNOBS.values(workload, machine).items():
        unique = dict.fromkeys((*listed, *(start[name] for start in starts)))
        whole = all(type(v) is int for v in unique)
        values[name] = tuple(sorted(unique)) if whole else tuple(unique)
    space = Space(workload, machine, algorithm, values, starts, error_budget, facts, precision)
    return replace(space, starts=tuple(start for start in starts if space.fits(start)))


def validate(workload: Conv2dWorkload, machine: Device, algorithm: str, config: Config) -> Config:
    """A config from outside, completed with all knobs.

    Knobs that an older config lacks get their backward-compatible default. Integers must be within
    the range of the knob's listed values, other settings must be listed. A trace must fit the
    tensor expression. Raises ``ConfigError`` if a knob is out of range, or a check fails.
    """
    if problem := registry.unknown(algorithm):
        offered = ", ".join(registry.offered(machine, "", workload))
        raise ConfigError(f"{problem}; builds choose from {offered}")
    space = make_space(workload, machine, algorithm)
    try:
        config = registry.knobs(algorithm, machine).complete(config)
    except ConfigError as error:
        raise ConfigError(f"{algorithm} {workload}: {error}") from None
    for name, values in space.values.items():
        setting = config[name]
        listed = any(type(v) is type(setting) and v == setting for v in values)
        numbers = [v for v in values if type(v) is int]
        inside = (
            type(setting) is int
            and len(numbers) == len(values)
            and min(numbers) <= setting <= max(numbers)
        )
        if not (listed or inside):
            raise ConfigError(f"{algorithm} {workload}: {name}={setting!r} is out of range")
    registry.check(algorithm, workload, machine, config)
    if config.trace and (problem := _trace_problem(Kernel(workload, machine, algorithm, config))):
        raise ConfigError(f"{algorithm} {workload}: {problem}")
    return config


@lru_cache(maxsize=256)
def _trace_problem(kernel: Kernel) -> str:
    """Why the trace of a kernel cannot be used, as a clause; empty if it can."""
    if not isinstance(kernel.machine, Machine):
        return "traces are for CPUs"
    try:
        kernel.prim_func()
    except ConfigError as error:
        return str(error)
    return ""


def validated(record: Record, machine: Device) -> Record:
    """A record whose configs have all knobs; :func:`validate` checks both configs."""
    w = record.workload
    return replace(
        record,
        config=validate(w, machine, record.algorithm, record.config),
        default_config=validate(w, machine, record.default_algorithm, record.default_config),
    )


def record_machine(facts: Mapping[str, Any]) -> Machine | CudaMachine:
    """The machine of a record, with the fields that schedules read.

    Raises ``ConfigError`` if its instruction set has no schedules.
    """
    if facts["family"] == CudaMachine.family:
        return _record_gpu(facts)
    base = similar(facts["isa"], facts["mcpu"])
    if base is None or base.family != facts["family"]:
        raise ConfigError(f"{facts['family']}/{facts['isa']} has no schedules here")
    fixed = ("lanes", "vector_registers")
    if any(facts[name] != getattr(base, name) for name in fixed) or facts["cores"] < 1:
        raise ConfigError(f"a {facts['isa']} machine has other registers than the record says")
    sizes = {name: facts[name] for name in ("l1d_bytes", "l2_bytes", "l3_bytes")}
    name = str(facts.get("name", base.name))
    return replace(base, name=name, mcpu=facts["mcpu"], cores=facts["cores"], **sizes)


def _record_gpu(facts: Mapping[str, Any]) -> CudaMachine:
    base = GPUS.get(f"cuda:{facts['isa']}")
    if base is None:
        raise ConfigError(f"GPUs of {facts['isa']} have no schedules here")
    fixed = {"lanes": base.lanes, "vector_registers": base.registers}
    if any(facts[name] != value for name, value in fixed.items()) or facts["cores"] < 1:
        raise ConfigError(f"a GPU of {facts['isa']} has other registers than the record says")
    sizes = {"l2_bytes": facts["l2_bytes"], "shared_bytes": facts["l1d_bytes"]}
    return replace(base, model=facts["mcpu"], multiprocessors=facts["cores"], **sizes)


def error_class(record: Record) -> tuple[Any, ...]:
    """Equal for records that compete: they have the same key, precision and numerical error.

    The record must have passed :func:`refusal`.
    """
    machine = record_machine(record.machine)
    algorithm = registry.algorithm(record.algorithm, machine.kind)
    config = registry.knobs(record.algorithm, machine).complete(record.config)
    error = algorithm.error_estimate(record.workload, machine, config)
    return (*record.key, algorithm.precision(config), error)


def foreign_space(record: Record) -> str:
    """Why builds cannot use the search space of a record, as a clause; empty if they can."""
    space = record.tuner.get("space", KNOBS)
    if space not in (KNOBS, AUTO):
        return "it is of an unknown search space"
    if (space == AUTO) != bool(record.config.trace):
        return "its trace is missing" if space == AUTO else "its space has no traces"
    return ""


def refusal(record: Record) -> str:
    """Why this version cannot use a record, as a clause; empty if it can."""
    if reason := foreign_space(record):
        return reason
    try:
        machine = record_machine(record.machine)
        validate(record.workload, machine, record.algorithm, record.config)
    except TvmconvError as error:
        return str(error)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        return f"the schedule cannot read its knobs: {error!r}"
    return ""
