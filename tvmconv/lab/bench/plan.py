"""``tvmconv bench run``: the cases, and the implementations to compare."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from tvmconv.core.arguments import nearest
from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.core.errors import InputError
from tvmconv.core.tensor import Shapes
from tvmconv.lab import baselines as baseline_table
from tvmconv.lab.baselines import Baseline
from tvmconv.lab.bench.implementation_run import Extras
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.targets import resolve_device
from tvmconv.measuring import suites as suite_files

_ALIASES = {"ort": "onnxruntime", "ov": "openvino", "xnnpack": "litert", "dnnl": "onednn"}


@dataclass(frozen=True)
class BenchPlan:
    """Everything that a run needs.

    Parameters
    ----------
    models
        ONNX files.
    layers, products
        Convolutions and matrix products of suites and of the command line.
    poolings
        Pooling layers of the same, which are measured as models.
    baselines
        Names from :data:`tvmconv.lab.baselines.BASELINES`, in column order.
    pythons
        Interpreter of each baseline by its name; the empty name is the default.
    threads
        Thread counts, one pass each.
    rounds, seconds
        Interleaved rounds, and time for one implementation in one round.
    target, shapes, fold_budget, precision
        As of ``tvmconv.build``; baselines may round to ``precision``, too.
    algorithms
        Our rows, as ``--algorithms`` writes them; empty for every algorithm that computes one of
        the layers.
    extras
        Measurements other than warm calls.
    log
        Tuning log as of ``tvmconv.build``. Builds with a named log are compared with builds without
        any.
    relax_pass
        Whether models are also built by ``relax.build`` after ``SubstituteConv2d``.
    batches
        Batch sizes of models, one after another; empty for their own.
    kernels
        Folder of kernels that were compiled for a GPU; empty for none.
    streams
        Numbers of calls at the same time, one pass each, which share the threads; empty for single
        calls.
    nchw
        Whether our layers read and write plain NCHW, with conversions in the calls.
    fits
        Whether a layer's batch is halved until the memory is sufficient.
    """

    models: tuple[Path, ...]
    layers: tuple[suite_files.Layer, ...]
    baselines: tuple[str, ...]
    pythons: Mapping[str, str]
    target: str = "native"
    threads: tuple[int, ...] = (1,)
    rounds: int = 5
    seconds: float = 0.2
    shapes: Shapes | None = None
    algorithms: str = ""
    extras: Extras = field(default_factory=Extras)
    products: tuple[suite_files.Product, ...] = ()
    log: str | None = None
    relax_pass: bool = False
    fold_budget: int | None = None
    batches: tuple[int, ...] = ()
    kernels: str = ""
    precision: str = "float32"
    streams: tuple[int, ...] = ()
    poolings: tuple[suite_files.Pooling, ...] = ()
    nchw: bool = False
    fits: bool = False

    @property
    def on_gpu(self) -> bool:
        """Whether the target is a GPU."""
        return isinstance(resolve_device(self.target), CudaMachine)

    def python(self, baseline: str) -> str:
        """The interpreter that runs a baseline."""
        return self.pythons.get(baseline) or self.pythons.get("") or sys.executable


def make_plan(
    *,
    models: Sequence[Path] = (),
    suites: Sequence[str] = (),
    layers: Sequence[str] = (),
    baselines: str = "all",
    target: str = "native",
    threads: Sequence[int] = (1,),
    rounds: int = 5,
    seconds: float = 0.2,
    shapes: Shapes | None = None,
    baseline_python: Sequence[str] = (),
    algorithms: str = "",
    batch: int | Sequence[int] | None = None,
    types: str = "",
    stages: bool = False,
    cold: bool = False,
    memory: bool = False,
    load: bool = False,
    log: str | None = None,
    relax_pass: bool = False,
    fold_budget: int | None = None,
    kernels: Path | None = None,
    samples: int = 50,
    precision: str = "float32",
    streams: Sequence[int] = (),
    nchw: bool = False,
    fits: bool = False,
) -> BenchPlan:
    """Check the user's arguments and make a plan of them, as far as they are fields of it.

    ``suites`` are names of shipped suites or text files, ``layers`` problem strings. ``baselines``
    is ``all``, ``none``, or names separated by commas; ``baseline_python`` has ``PATH`` for all of
    them, or ``NAME=PATH`` for one. ``batch`` sizes replace the sizes of every layer and model.
    ``types`` are data types of every layer as problem strings have them, e.g. ``u8s8s32u8``.
    :class:`Extras` explains ``stages``, ``cold``, ``memory`` and ``load``. ``samples`` is their
    minimum number for each implementation on a GPU; papers repeat calls fifty times. ``streams``
    are for models on CPUs, without other measurements. Raises
    ``InputError`` or ``WorkloadError`` if a baseline, suite, layer or file does not exist. Raises
    ``ConfigError`` if the target does not have the precision.
    """
    from tvmconv.records.lookup import search_path
    from tvmconv.selection.policy import check_precision, make_policy

    for path in models:
        if not path.is_file():
            raise InputError(f"{path} does not exist. Name an ONNX file.")
    problems = [problem for suite in suites for problem in suite_files.load_problems(suite)]
    problems += [suite_files.parse_problem(text) for text in layers]
    found = [problem for problem in problems if isinstance(problem, suite_files.Layer)]
    poolings = [problem for problem in problems if isinstance(problem, suite_files.Pooling)]
    products = tuple(p for p in problems if isinstance(p, suite_files.Product))
    batches = (batch,) if isinstance(batch, int) else tuple(batch or ())
    if batches:
        if products:
            raise InputError(
                f"--batch: {products[0].workload} has no batch. Expected convolutions. "
                "Leave out --batch."
            )
        found = [suite_files.with_batch(layer, each) for each in batches for layer in found]
        poolings = [suite_files.with_batch(pool, each) for each in batches for pool in poolings]
    if types:
        found = [
            suite_files.with_types(layer, DataTypes.parse(types.split(":"))) for layer in found
        ]
    device = resolve_device(target)
    _check_layers(device, found, poolings, nchw=nchw, fits=fits)
    if streams and (
        found or products or poolings or stages or cold or memory or load or relax_pass
    ):
        raise InputError(
            "--streams measures whole calls of models alone. Leave out --suite, --layer, --stages, "
            "--cold, --memory, --load and --relax-pass."
        )
    if streams and isinstance(device, CudaMachine):
        raise InputError(f"--streams does not support the target {target!r}. Expected a CPU.")
    check_precision(make_policy(precision=precision), device)
    known = baseline_table.OF_KIND[device.kind]
    # a missing log is an error before anything is measured
    search_path(log)
    return BenchPlan(
        models=tuple(models),
        layers=tuple(found),
        baselines=_baseline_names(baselines, known),
        pythons=_pythons(baseline_python, known),
        target=target,
        threads=tuple(threads),
        rounds=rounds,
        seconds=seconds,
        shapes=shapes or None,
        algorithms=algorithms,
        extras=Extras(
            stages,
            device.last_cache_bytes if cold else 0,
            memory,
            load,
            ceil(samples / rounds) if isinstance(device, CudaMachine) else Extras.samples,
        ),
        products=products,
        log=log,
        relax_pass=relax_pass,
        fold_budget=fold_budget,
        batches=batches,
        kernels=str(kernels or ""),
        precision=precision,
        streams=tuple(streams),
        poolings=tuple(poolings),
        nchw=nchw,
        fits=fits,
    )


def _check_layers(
    device: Device,
    layers: Sequence[suite_files.Layer],
    poolings: Sequence[suite_files.Pooling],
    *,
    nchw: bool,
    fits: bool,
) -> None:
    """Raise :class:`InputError` for options without a layer, and poolings and NCHW on a GPU."""
    for option, is_set in (("--nchw", nchw), ("--batch fit:N", fits)):
        if is_set and not layers:
            raise InputError(f"{option} is for convolution layers. Name --suite or --layer.")
    if isinstance(device, CudaMachine) and (poolings or nchw or fits):
        what = str(poolings[0].workload) if poolings else "--nchw" if nchw else "--batch fit:N"
        raise InputError(f"bench measures {what} on CPUs only. Leave out --target.")
    if nchw and (other := [x for x in layers if x.workload.types != FLOAT32]):
        raise InputError(f"--nchw is for FP32, not for {other[0].workload}. Leave out --nchw.")


def _baseline_names(text: str, known_baselines: Mapping[str, Baseline]) -> tuple[str, ...]:
    if text == "all":
        return tuple(name for name, each in known_baselines.items() if each.common)
    if text == "none":
        return ()
    names = [_ALIASES.get(name.strip(), name.strip()) for name in text.split(",")]
    for name in names:
        if name not in known_baselines:
            known, hint = ", ".join(known_baselines), nearest(name, known_baselines)
            raise InputError(f"unknown library {name!r}; {hint}use all, none, or some of {known}")
    return tuple(dict.fromkeys(names))


def _pythons(items: Sequence[str], known_baselines: Mapping[str, Baseline]) -> dict[str, str]:
    pythons = {}
    for item in items:
        baseline, _, path = item.rpartition("=")
        baseline = _ALIASES.get(baseline, baseline)
        if baseline and baseline not in known_baselines:
            raise InputError(
                f"unknown library {baseline!r} in --baseline-python {item!r}; use PATH for all "
                f"libraries, or NAME=PATH with one of {', '.join(known_baselines)}"
            )
        if not os.access(path, os.X_OK):
            raise InputError(
                f"--baseline-python {path!r} is not an executable file. Name a Python interpreter."
            )
        pythons[baseline] = path
    return pythons
