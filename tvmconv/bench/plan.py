"""``tvmconv bench``: what to measure, with whom, and the run itself."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.bench import peers as peer_table
from tvmconv.bench import suites as suite_files
from tvmconv.bench.contenders import contenders
from tvmconv.bench.host import host_header, pick_cpus
from tvmconv.bench.lane import Extras
from tvmconv.bench.report import bench_report
from tvmconv.bench.result import BenchResult, CaseResult, read_saved
from tvmconv.bench.worker_process import Contender
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import InputError

if TYPE_CHECKING:
    from tvmconv.bench.rounds import Field

__all__ = ["Plan", "bench_report", "make_plan", "read_saved", "run_plan"]

_ALIASES = {"ort": "onnxruntime", "ov": "openvino", "xnnpack": "litert", "dnnl": "onednn"}


@dataclass(frozen=True)
class Plan:
    """Everything a run needs.

    Parameters
    ----------
    models
        ONNX files.
    layers, products
        Convolutions and matrix products of suites and of the command line.
    peers
        Names from :data:`tvmconv.bench.peers.PEERS`, in column order.
    pythons
        Peer name to interpreter; the empty name is the default.
    target
        As of ``tvmconv.build``.
    threads
        Thread counts, one pass each.
    rounds, seconds
        Interleaved rounds, and time for one contender in one round.
    shapes, fold_budget
        Of the models, as of ``tvmconv.build``.
    algorithms
        What our rows are, as ``--algorithms`` writes it; empty for every algorithm that computes
        one of the layers.
    extras
        What is measured beside warm calls.
    log
        Tuning log as of ``tvmconv.build``; where one is named, what builds take with it and
        without any is measured side by side.
    relax_pass
        Whether models are also built by ``relax.build`` after ``SubstituteConv2d``.
    """

    models: tuple[Path, ...]
    layers: tuple[suite_files.Layer, ...]
    peers: tuple[str, ...]
    pythons: Mapping[str, str]
    target: str = "native"
    threads: tuple[int, ...] = (1,)
    rounds: int = 5
    seconds: float = 0.2
    shapes: Mapping[str, tuple[int, ...]] | None = None
    algorithms: str = ""
    extras: Extras = field(default_factory=Extras)
    products: tuple[suite_files.Product, ...] = ()
    log: str | None = None
    relax_pass: bool = False
    fold_budget: int | None = None

    def python(self, peer: str) -> str:
        """The interpreter that runs a peer."""
        return self.pythons.get(peer) or self.pythons.get("") or sys.executable


def make_plan(
    *,
    models: Sequence[Path] = (),
    suites: Sequence[str] = (),
    layers: Sequence[str] = (),
    peers: str = "all",
    target: str = "native",
    threads: Sequence[int] = (1,),
    rounds: int = 5,
    seconds: float = 0.2,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    peer_python: Sequence[str] = (),
    algorithms: str = "",
    batch: int | None = None,
    types: str = "",
    stages: bool = False,
    cold: bool = False,
    memory: bool = False,
    load: bool = False,
    log: str | None = None,
    relax_pass: bool = False,
    fold_budget: int | None = None,
) -> Plan:
    """Check the user's words and turn them into a plan.

    Parameters
    ----------
    models
        ONNX files.
    suites
        Names of shipped suites, or text files.
    layers
        Problem strings.
    target, threads, rounds, seconds, shapes
        As of :class:`Plan`.
    peers
        ``all``, ``none``, or names separated by commas.
    peer_python
        ``PATH`` for all peers, or ``PEER=PATH`` for one.
    algorithms
        What our rows are; see :func:`tvmconv.bench.variants.parse_variants`.
    batch
        Batch size of every layer, in place of its own.
    types
        Data types of every layer as problem strings have them, e.g. ``u8s8s32u8``.
    stages, cold, memory, load
        What to measure beside warm calls; see :class:`Extras`.
    log, relax_pass, fold_budget
        As of :class:`Plan`.

    Raises
    ------
    InputError, WorkloadError
        If a peer, suite, layer or file does not exist.
    """
    from tvmconv.records.lookup import search_path

    for path in models:
        if not path.is_file():
            raise InputError(f"{path} does not exist")
    problems = [problem for suite in suites for problem in suite_files.load_problems(suite)]
    problems += [suite_files.parse_problem(text) for text in layers]
    found = [problem for problem in problems if isinstance(problem, suite_files.Layer)]
    products = tuple(p for p in problems if isinstance(p, suite_files.Product))
    if batch is not None:
        if products:
            raise InputError(f"--batch is for convolutions; {products[0].workload} has no batch")
        found = [suite_files.with_batch(layer, batch) for layer in found]
    if types:
        found = [
            suite_files.with_types(layer, DataTypes.parse(types.split(":"))) for layer in found
        ]
    # a log that does not exist is told before anything is measured
    search_path(log)
    return Plan(
        models=tuple(models),
        layers=tuple(found),
        peers=_peer_names(peers),
        pythons=_pythons(peer_python),
        target=target,
        threads=tuple(threads),
        rounds=rounds,
        seconds=seconds,
        shapes=shapes or None,
        algorithms=algorithms,
        extras=Extras(stages, _last_cache(target) if cold else 0, memory, load),
        products=products,
        log=log,
        relax_pass=relax_pass,
        fold_budget=fold_budget,
    )


def _last_cache(target: str) -> int:
    from tvmconv.machines.targets import resolve_machine

    return resolve_machine(target).last_cache_bytes


def _peer_names(text: str) -> tuple[str, ...]:
    if text == "all":
        return tuple(peer_table.PEERS)
    if text == "none":
        return ()
    names = [_ALIASES.get(name.strip(), name.strip()) for name in text.split(",")]
    for name in names:
        if name not in peer_table.PEERS:
            known = ", ".join(peer_table.PEERS)
            raise InputError(f"unknown peer {name!r}; use all, none, or some of {known}")
    return tuple(dict.fromkeys(names))


def _pythons(items: Sequence[str]) -> dict[str, str]:
    pythons = {}
    for item in items:
        peer, _, path = item.rpartition("=")
        peer = _ALIASES.get(peer, peer)
        if peer and peer not in peer_table.PEERS:
            raise InputError(f"unknown peer {peer!r} in --peer-python {item!r}")
        if not os.access(path, os.X_OK):
            raise InputError(f"--peer-python {path!r} is not an executable file")
        pythons[peer] = path
    return pythons


def run_plan(
    plan: Plan,
    tell: Callable[[str], None] = lambda _: None,
    checkpoint: Callable[[BenchResult], None] = lambda _: None,
) -> BenchResult:
    """Measure everything; layers and models each with their own contenders.

    Parameters
    ----------
    plan
        From :func:`make_plan`.
    tell
        Called with one line after every case.
    checkpoint
        Called after every case with all results so far, so that a long run can be kept.

    Raises
    ------
    TvmconvError
        If this processor cannot run code for the target, or a model cannot be read or has no
        reference. A contender's failure is recorded instead.
    """
    from tvmconv.bench.rounds import Field, describe
    from tvmconv.machines.gate import ensure_machine
    from tvmconv.machines.targets import resolve_machine

    ensure_machine(resolve_machine(plan.target), "a contender")
    header = host_header()
    settings = {
        "target": plan.target,
        "threads": list(plan.threads),
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "peers": list(plan.peers),
        "algorithms": plan.algorithms,
        "stages": plan.extras.stages,
        "cold_cache_bytes": plan.extras.cold_bytes,
        "memory": plan.extras.memory,
        "load": plan.extras.load,
        "log": plan.log,
        "fold_budget": plan.fold_budget,
    }
    results: list[CaseResult] = []
    for threads in plan.threads:
        for kind in ("layers", "products", "models"):
            cases = getattr(plan, kind)
            if not cases:
                continue
            with Field(contenders(plan, kind), threads, pick_cpus(threads), plan.extras) as contest:
                contest.hello()
                for case in cases:
                    result = _measure(plan, contest, case)
                    results.append(result)
                    tell(describe(result))
                    checkpoint(BenchResult(header, settings, tuple(results)))
    return BenchResult(header, settings, tuple(results))


def _measure(
    plan: Plan, contest: Field, case: Path | suite_files.Layer | suite_files.Product
) -> CaseResult:
    from tvmconv.bench.case_memory import too_large
    from tvmconv.bench.cases import write_layer_case, write_model_case
    from tvmconv.bench.gemm_run import write_gemm_case
    from tvmconv.bench.quantised import is_quantised
    from tvmconv.bench.rounds import write_reference

    labels = [lane.label for lane in contest.workers]
    if not isinstance(case, Path) and (reason := too_large(case.workload, labels)):
        w, threads = case.workload, contest.threads
        kind = "layer" if isinstance(case, suite_files.Layer) else "product"
        return CaseResult(case.name, kind, str(w), w.flops, case.count, threads, (), reason)
    with tempfile.TemporaryDirectory(prefix="tvmconv-bench-") as name:
        folder = Path(name)
        options: dict[str, Any] = {}
        if isinstance(case, Path):
            info = write_model_case(folder, case, plan.shapes, plan.fold_budget)
            reference = peer_table.PEERS["onnxruntime"]
            write_reference(
                Contender("reference", reference.module, plan.python("onnxruntime")),
                folder,
                exact=is_quantised(case),
            )
        elif isinstance(case, suite_files.Product):
            info = write_gemm_case(folder, case.workload, case.name, case.count)
            options["product"] = str(case.workload)
        else:
            info = write_layer_case(folder, case.workload, case.name, case.count)
            options["workload"] = str(case.workload)
        return contest.measure(folder, info, plan.rounds, plan.seconds, options)
