"""Names in ``bench run --algorithms``: our algorithms, fixed knobs, and the steps of papers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from tvmconv.core.arguments import nearest
from tvmconv.core.config import Config, KnobValue
from tvmconv.core.errors import ConfigError, InputError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench.result import OWN
from tvmconv.machines.device import Device
from tvmconv.report.knobs import listed
from tvmconv.tuning.default_choice import untuned_choice

_LAYOUTS = {"nchw": "NCHW", "nhwc": "NHWC", "nchwc": "NCHWc"}
_WRITE = (
    "write NAME, -NAME or NAME:KNOB=VALUE/VALUE:..., e.g. direct,im2win_nchw:level=all; NAME may "
    "be all, and NAME:steps names the steps of its paper"
)


@dataclass(frozen=True)
class Variant:
    """One of our algorithms with some knobs fixed.

    Fixed ``knobs`` complete the candidate that agrees with most of them. ``layout`` is the input's,
    ``NCHW`` or ``NCHWc``; empty for the layer's own. ``adapts`` is whether the other layout is used
    where the algorithm cannot read the layer's own. ``named`` is whether the user named this form:
    the report then says where it cannot compute a layer.
    """

    algorithm: str
    knobs: tuple[tuple[str, KnobValue], ...] = ()
    layout: str = ""
    adapts: bool = False
    named: bool = False

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.knobs]
        parts += [f"layout={self.layout.lower()}"] if self.layout else []
        return ":".join([self.algorithm, *parts])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "knobs": dict(self.knobs)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Variant:
        """Inverse of :meth:`to_json`."""
        return cls(**{**data, "knobs": tuple(data["knobs"].items())})

    def workload(self, workload: Conv2dWorkload, machine: Device) -> Conv2dWorkload:
        """The layer with the input layout that this variant reads.

        Raises :class:`ConfigError` if the algorithm cannot compute it.
        """
        expression = registry.algorithm(self.algorithm, machine.kind)
        if self.layout:
            workload = replace(workload, data_layout=self.layout)
        reason = expression.unsupported(workload, machine)
        if reason and self.adapts and not self.layout:
            other = "NCHW" if workload.data_layout == "NCHWc" else "NCHWc"
            adapted = replace(workload, data_layout=other)
            if expression.unsupported(adapted, machine) is None:
                return adapted
        if registry.schedule(self.algorithm, machine) is None:
            reason = reason or f"it has no schedule for {machine.family}"
        if reason:
            raise ConfigError(f"{self.algorithm} cannot compute {workload}: {reason}")
        return workload

    def kernel(self, workload: Conv2dWorkload, machine: Device) -> Kernel:
        """The kernel for a layer.

        Raises :class:`ConfigError` if the algorithm cannot compute the layer, or the layer or the
        machine does not allow a knob; the error names legal values.
        """
        workload = self.workload(workload, machine)
        schedule = registry.required(self.algorithm, workload, machine)
        if not self.knobs:
            config = registry.default_config(self.algorithm, workload, machine)
            return Kernel(workload, machine, self.algorithm, config)
        knobs = dict(self.knobs)

        def distance(config: Config) -> tuple[int, float]:
            cycles = schedule.predicted_cycles(workload, machine, config)
            return sum(config.get(knob) != value for knob, value in knobs.items()), cycles

        reasons = []
        # legal values of other knobs depend on the fixed ones
        for offer in sorted(registry.offers(self.algorithm, workload, machine), key=distance):
            try:
                config = offer.replace(**knobs)
                registry.check(self.algorithm, workload, machine, config)
            except ConfigError as error:
                reasons.append(str(error))
            else:
                return Kernel(workload, machine, self.algorithm, config)
        values = registry.knob_values(self.algorithm, workload, machine)
        legal = "; ".join(f"{k}: {listed(values[k])}" for k in knobs if k in values)
        raise ConfigError(reasons[0] + (f" (values: {legal})" if legal else ""))


def chosen_kernel(
    workload: Conv2dWorkload, machine: Device, log: str | None, precision: str = "float32"
) -> Kernel:
    """The choice of a build for a layer; ``log`` and ``precision`` as of ``tvmconv.build``."""
    from tvmconv.records.lookup import search_path
    from tvmconv.selection.policy import make_policy

    policy = make_policy(logs=search_path(log), precision=precision)
    return Kernel(workload, machine, *untuned_choice(workload, machine, policy))


def layer_kernels(
    workload: Conv2dWorkload,
    machine: Device,
    variants: Iterable[Variant],
    log: str | None,
    precision: str = "float32",
) -> dict[str, Kernel | ConfigError]:
    """The kernel of a build and of every variant by label; an error for a named one that fails."""
    found: dict[str, Kernel | ConfigError] = {OWN: chosen_kernel(workload, machine, log, precision)}
    for variant in variants:
        try:
            found[f"{OWN} {variant}"] = variant.kernel(workload, machine)
        except ConfigError as error:
            if variant.named:
                found[f"{OWN} {variant}"] = error
    return found


def asked_kernel(options: Mapping[str, Any], workload: Conv2dWorkload, machine: Device) -> Kernel:
    """The kernel that a case's options ask for: a variant's, or the choice of a build.

    Raises :class:`ConfigError` if the variant does not suit the layer.
    """
    if "variant" in options:
        return Variant.from_json(options["variant"]).kernel(workload, machine)
    precision = options.get("precision", "float32")
    return chosen_kernel(workload, machine, options["log"], precision)


def parse_variants(
    text: str,
    workloads: Sequence[Conv2dWorkload],
    machine: Device,
    precision: str = "float32",
) -> tuple[Variant, ...]:
    """The variants that ``--algorithms`` names, in its order; an empty text names the default.

    The default is every algorithm that computes one of the layers as it is given. ``all`` adds
    algorithms that read the other input layout. Algorithms that round operands take part if they
    round to ``precision``, or are named. Raises :class:`InputError` if an algorithm, a knob or a
    form of writing is unknown, and :class:`ConfigError` if a named form computes none of the
    layers.
    """
    names = _all_names(machine, precision)
    default = [_rounding(Variant(name), machine, precision) for name in names]
    if not text:
        able = _able(default, workloads, machine)
        if workloads and not able:
            # raises the reasons
            chosen_kernel(workloads[0], machine, "none", precision)
        return able
    found: list[Variant] = []
    for word in text.split(","):
        name, *modifiers = word.strip().split(":")
        if name.startswith("-"):
            _check_name(name[1:], machine)
            found = [v for v in found or default if v.algorithm != name[1:]]
            continue
        if name != "all":
            _check_name(name, machine)
        for each in names if name == "all" else [name]:
            found += _expanded(each, modifiers, name != "all", workloads, machine)
    variants = tuple(dict.fromkeys(_rounding(each, machine, precision) for each in found))
    for variant in variants:
        if variant.named and not _able((variant,), workloads, machine):
            # raises the reason
            variant.kernel(workloads[0], machine)
    return _able(variants, workloads, machine)


def _all_names(machine: Device, precision: str) -> list[str]:
    """The default algorithms: no first steps, which are slow, and no other precision."""
    names = {*registry.known(machine.kind)} - {*registry.FIRST_STEPS.values()}
    able = {"", precision}
    return sorted(n for n in names if able & {*registry.algorithm(n, machine.kind).precisions})


def _rounding(variant: Variant, machine: Device, precision: str) -> Variant:
    """The variant in the bench's precision, where it has that and names no other."""
    known = registry.algorithm(variant.algorithm, machine.kind).precisions
    if precision not in known or "precision" in dict(variant.knobs):
        return variant
    return replace(variant, knobs=(*variant.knobs, ("precision", precision)))


def _check_name(name: str, machine: Device) -> None:
    names = registry.known(machine.kind)
    if name not in names:
        raise InputError(
            f"unknown algorithm {name!r} in --algorithms; {nearest(name, names)}{_WRITE}; "
            f"algorithms are {', '.join(names)}"
        )


def _expanded(
    name: str,
    modifiers: Sequence[str],
    named: bool,
    workloads: Sequence[Conv2dWorkload],
    machine: Device,
) -> list[Variant]:
    """The variants of one item, with its alternatives written out."""
    if list(modifiers) == ["steps"]:
        return [
            Variant(step_name, tuple(step.items()), adapts=True)
            for step_name, step in registry.steps(name, machine)
        ]
    choices: list[list[tuple[str, KnobValue]]] = []
    for modifier in modifiers:
        knob, _, values = modifier.partition("=")
        if not knob or not values:
            raise InputError(f"cannot read {modifier!r} of {name} in --algorithms; {_WRITE}")
        texts = values.split("/")
        if knob == "layout":
            if unknown := [t for t in texts if t not in _LAYOUTS]:
                raise InputError(f"layout={unknown[0]} must be one of {', '.join(_LAYOUTS)}")
            choices.append([(knob, _LAYOUTS[t]) for t in texts])
        elif values == "all":
            choices.append([(knob, v) for v in _all_values(name, knob, workloads, machine)])
        else:
            choices.append([(knob, _value(t)) for t in texts])
    found = []
    for combination in product(*choices):
        knobs = tuple((k, v) for k, v in combination if k != "layout")
        layout = str(dict(combination).get("layout", ""))
        found.append(Variant(name, knobs, layout, adapts=True, named=named))
    return found


def _all_values(
    name: str, knob: str, workloads: Sequence[Conv2dWorkload], machine: Device
) -> list[KnobValue]:
    """Every value that a knob has on some layer, in the order in which they come."""
    values: dict[KnobValue, None] = {}
    known: dict[str, None] = {}
    for workload in workloads:
        try:
            adapted = Variant(name, adapts=True).workload(workload, machine)
        except ConfigError:
            continue
        space = registry.knob_values(name, adapted, machine)
        known |= dict.fromkeys(space)
        values |= dict.fromkeys(space.get(knob, ()))
    if not values and known:
        raise InputError(f"{name} has no knob {knob!r}; it has {', '.join(known)}")
    return list(values)


def _value(text: str) -> KnobValue:
    if text.lstrip("-").isdecimal():
        return int(text)
    return {"true": True, "false": False}.get(text, text)


def _able(
    variants: Iterable[Variant], workloads: Sequence[Conv2dWorkload], machine: Device
) -> tuple[Variant, ...]:
    """The variants that compute one of the layers or more."""

    def computes(variant: Variant, workload: Conv2dWorkload) -> bool:
        try:
            if variant.knobs:
                variant.kernel(workload, machine)
            else:
                variant.workload(workload, machine)
        except ConfigError:
            return False
        return True

    return tuple(v for v in variants if any(computes(v, w) for w in workloads))
