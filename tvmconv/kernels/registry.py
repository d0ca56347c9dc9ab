"""The algorithms, and their schedules for each target family.

An algorithm is one file under ``tvmconv/algorithms/`` and one line in :data:`ALGORITHMS`, or in
:data:`REPRODUCTIONS`. Its schedule is one file that defines ``SCHEDULE``, a
:class:`~tvmconv.schedules.common.conv_schedule.ConvSchedule`: ``schedules/cpu/<algorithm>.py`` for
all families, or ``schedules/<family>/<algorithm>.py`` for one family.

GPUs have their own algorithms, in :data:`OF_KIND` under their kind of device and in
``schedules/<kind>``. The same name is the same algorithm there, with another expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from tvmconv.algorithms.base import DeviceAlgorithm
from tvmconv.core.arguments import nearest
from tvmconv.core.config import Config, KnobValue
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.families import schedules_of
from tvmconv.machines.device import Device
from tvmconv.schedules.common.conv_schedule import ConvSchedule

# name -> class, imported on first use, because a tensor expression needs TVM's compiler
ALGORITHMS: dict[str, str] = {
    "depthwise": "tvmconv.algorithms.depthwise.depthwise:Depthwise",
    "direct": "tvmconv.algorithms.direct.direct:Direct",
    "direct_bytes": "tvmconv.algorithms.integer.direct_bytes:DirectBytes",
    "direct_first": "tvmconv.algorithms.direct.direct_first:DirectFirst",
    "direct_tiles": "tvmconv.algorithms.integer.direct_tiles:DirectTiles",
    "winograd": "tvmconv.algorithms.winograd.winograd:Winograd",
    "im2col": "tvmconv.algorithms.gemm.im2col:Im2col",
    "im2win": "tvmconv.algorithms.gemm.im2win:Im2win",
    "strassen": "tvmconv.algorithms.gemm.strassen:Strassen",
}

# algorithms of fully connected layers on CPUs; on GPUs, algorithms of convolutions compute them
PRODUCTS: dict[str, str] = {
    "dense": "tvmconv.algorithms.gemm.dense:Dense",
    "dense_strassen": "tvmconv.algorithms.gemm.dense_strassen:DenseStrassen",
}

# Variants for comparison with papers: benchmarks and tests run them, selection and tuner never
# choose one.
REPRODUCTIONS: dict[str, str] = {
    "direct_naive": "tvmconv.algorithms.reproductions.direct_naive:DirectNaive",
    "im2win_nchw": "tvmconv.algorithms.reproductions.im2win_nchw:Im2winNchw",
    "winograd_eta": "tvmconv.algorithms.reproductions.winograd_eta:WinogradEta",
}

# candidates of selection, by kind of device
OF_KIND: dict[str, Mapping[str, str]] = {
    "cpu": ALGORITHMS,
    "cuda": {
        "direct": "tvmconv.algorithms.cuda.direct:Direct",
        "implicit_gemm": "tvmconv.algorithms.cuda.implicit_gemm:ImplicitGemm",
        "implicit_gemm_mma": "tvmconv.algorithms.cuda.implicit_gemm_mma:ImplicitGemmMma",
        "depthwise": "tvmconv.algorithms.cuda.depthwise:Depthwise",
        "winograd": "tvmconv.algorithms.cuda.winograd:Winograd",
        "im2win": "tvmconv.algorithms.cuda.im2win:Im2win",
        "im2col": "tvmconv.algorithms.cuda.im2col:Im2col",
    },
}

# algorithm -> the reproduction with the steps of its paper that lead to it
FIRST_STEPS = {"direct": "direct_naive"}


def algorithm(name: str, kind: str = "cpu") -> DeviceAlgorithm[Any]:
    """The algorithm or reproduction registered under a name for a kind of device."""
    path = OF_KIND[kind].get(name) or PRODUCTS.get(name) or REPRODUCTIONS[name]
    module, _, attribute = path.partition(":")
    return cast("DeviceAlgorithm[Any]", getattr(import_module(module), attribute)())


def offered(
    machine: Device, precision: str = "", workload: Conv2dWorkload | None = None
) -> tuple[str, ...]:
    """The candidate algorithms of selection on a device, by default of convolutions.

    Algorithms that round operands to ``precision`` are among them.
    """
    if workload is not None and workload.is_matrix:
        return tuple(PRODUCTS)
    return tuple(
        name
        for name in OF_KIND[machine.kind]
        if {"", precision} & set(algorithm(name, machine.kind).precisions)
    )


def precisions(machine: Device) -> tuple[str, ...]:
    """The precisions to which algorithms of a device can round operands."""
    listed = [algorithm(name, machine.kind).precisions for name in OF_KIND[machine.kind]]
    return tuple(dict.fromkeys(name for names in listed for name in names if name))


def choices() -> tuple[str, ...]:
    """The candidate algorithms of selection on any device."""
    kinds = (*OF_KIND.values(), PRODUCTS)
    return tuple(dict.fromkeys(name for listed in kinds for name in listed))


def schedule(name: str, machine: Device) -> ConvSchedule[Any] | None:
    """The family's schedule of an algorithm, or None where there is none."""
    module = schedules_of(machine, name)
    return cast("ConvSchedule[Any]", module.SCHEDULE) if module else None


def required(name: str, workload: Conv2dWorkload, machine: Device) -> ConvSchedule[Any]:
    """The family's schedule of an algorithm; raises :class:`ConfigError` without one."""
    found = schedule(name, machine)
    if found is None:
        raise ConfigError(f"{name} has no schedule for {machine.family} ({workload})")
    return found


def names(kind: str = "cpu") -> tuple[str, ...]:
    """Algorithms of a kind of device, and reproductions for CPUs."""
    return (*OF_KIND[kind], *(REPRODUCTIONS if OF_KIND[kind] is ALGORITHMS else ()))


def known(kind: str = "cpu") -> tuple[str, ...]:
    """As :func:`names`, with the algorithms of fully connected layers on CPUs."""
    return (*names(kind), *(PRODUCTS if OF_KIND[kind] is ALGORITHMS else ()))


def unknown(name: str) -> str | None:
    """Why selection and tuner lack an algorithm of this name, as a clause; None if they have it."""
    if name in choices():
        return None
    if name in REPRODUCTIONS:
        return f"{name} only reproduces its paper, for bench"
    hint = nearest(name, choices()).strip()
    return f"{name!r} is unknown" + (f" ({hint})" if hint else "")


def unavailable(name: str, workload: Conv2dWorkload, machine: Device) -> str | None:
    """Why an algorithm cannot compute a workload on a device, as a clause; None if it can."""
    if name not in (*known(machine.kind), *REPRODUCTIONS):
        return f"it has no form for {machine.name}"
    reason = algorithm(name, machine.kind).unsupported(workload, machine)
    if reason is None and schedule(name, machine) is None:
        reason = f"it has no schedule for {machine.family}"
    return reason


def knobs(name: str, machine: Device) -> Knobs[Conv2dWorkload]:
    """The knobs of an algorithm's schedule; none where the family has no schedule."""
    found = schedule(name, machine)
    return found.KNOBS if found else Knobs(())


def check(name: str, workload: Conv2dWorkload, machine: Device, config: Config) -> None:
    """Check a configuration against the declared parameters and the schedule's own limits.

    Raises :class:`ConfigError` if the family has no schedule. It does so, too, if a parameter is
    unknown, missing or of another type, or exceeds a limit of the machine.
    """
    found = required(name, workload, machine)
    found.KNOBS.check(workload, machine, config)
    found.check(workload, machine, config)


def default_config(name: str, workload: Conv2dWorkload, machine: Device) -> Config:
    """The analytic choice of all knobs of an algorithm that has a schedule."""
    found = required(name, workload, machine)
    return found.KNOBS.complete(found.default_config(workload, machine))


def offers(name: str, workload: Conv2dWorkload, machine: Device) -> tuple[Config, ...]:
    """The configs of an algorithm that selection decides between: often its default alone."""
    found = schedule(name, machine)
    if found is None:
        return ()
    return tuple(found.KNOBS.complete(config) for config in found.offers(workload, machine))


def explain_cost(
    name: str, workload: Conv2dWorkload, machine: Device, config: Config
) -> dict[str, float]:
    """Predicted cycles of one call by part of the cost model."""
    return required(name, workload, machine).explain_cost(workload, machine, config)


def knob_values(
    name: str, workload: Conv2dWorkload, machine: Device
) -> dict[str, tuple[KnobValue, ...]]:
    """Every parameter of an algorithm with its values, also parameters only for :func:`steps`."""
    values = knobs(name, machine).values(workload, machine)
    for _, step in steps(name, machine, own=True):
        for knob, value in step.items():
            known = values.get(knob, ())
            values[knob] = known if value in known else (*known, value)
    return values


def steps(
    name: str, machine: Device, own: bool = False
) -> tuple[tuple[str, dict[str, KnobValue]], ...]:
    """The forms that an algorithm's paper compares, each a registered name with knobs.

    See a schedule's ``STEPS``, and :data:`FIRST_STEPS`, which ``own`` omits.
    """
    found = schedule(name, machine)
    listed: tuple[dict[str, KnobValue], ...] = found.STEPS if found else ({},)
    first = () if own or name not in FIRST_STEPS else steps(FIRST_STEPS[name], machine)
    return (*first, *((name, step) for step in listed))
