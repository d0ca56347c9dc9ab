"""``--search metaschedule``: MetaSchedule's own sketch rules on our tensor expression.

It searches in a process of its own, ``python -m tvmconv.tuning.auto``: a request on standard input,
the traces of its fastest candidates on standard output. The caller verifies and measures these as
it does other candidates.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.trace import trace_text
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.host import host_cores
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_machine
from tvmconv.measuring.processes import die_with_parent, package_path
from tvmconv.tuning.pool import Choice
from tvmconv.tuning.settings import Settings

# candidates of a generation: the default of TVM
_BATCH = 64
_BUILD_SECONDS = 60.0
_SECONDS_A_TRIAL = 30.0
_REPEATS = 3
_FAILED = 1e9
# the fastest of a search, of which the final measurement selects one
_FINALISTS = 4
# how builder processes link for a device of a tracker: the triple, and a function's global name
_TRIPLE = "TVMCONV_TUNING_TRIPLE"
_EXPORT = "tvmconv.tuning.export"


def run(
    workload: Conv2dWorkload,
    machine: Machine,
    expression: Choice,
    settings: Settings,
    seconds: float = math.inf,
    remote: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Search schedules of one workload by MetaSchedule.

    ``expression`` names algorithm and config whose tensor expression is scheduled. A search that
    takes more than ``seconds`` has no result. Candidates run here, or on devices of a tracker
    (``remote``: ``host``, ``port``, ``key``). Returns the ``seconds`` of all candidates in the
    order of the search, infinite for failed ones. It also returns the number of ``trials`` that
    ran, and the ``traces`` of the fastest, in order. Or it returns ``failed`` with the reason.
    Raises :class:`ArtifactError` if this CPU cannot run code for the machine.
    """
    if remote is None:
        # MetaSchedule calls what it compiles by itself
        ensure_machine(machine, f"a candidate of {workload}")
    request = {
        "workload": str(workload),
        "machine": machine.to_json(),
        "expression": [expression[0], expression[1].to_json()],
        "trials": settings.trials,
        "seed": settings.seed,
        "remote": dict(remote) if remote else None,
    }
    environment = {
        **os.environ,
        "TVM_NUM_THREADS": str(machine.cores),
        "PYTHONPATH": package_path(),
        _TRIPLE: machine.triple,
    }
    limit = _SECONDS_A_TRIAL * (settings.trials + 10)
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "tvmconv.tuning.auto"],
            input=json.dumps(request).encode(),
            capture_output=True,
            env=environment,
            timeout=max(min(seconds, limit), 0.0),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": "out of time" if seconds < limit else "hung"}
    last = finished.stdout.strip().splitlines()[-1:] or [b""]
    try:
        answer: dict[str, Any] = json.loads(last[0])
    except ValueError:
        text = finished.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return {"failed": f"crashed: {' '.join(text)[:300]}"}
    return answer


def main() -> None:
    """Serve one request."""
    die_with_parent()
    request = json.loads(sys.stdin.read())
    machine = read_machine(request["machine"])
    workload = Conv2dWorkload.parse(request["workload"])
    name, config = request["expression"]
    kernel = make_kernel(workload, machine, name, Config.from_json(config))
    # MetaSchedule writes its tables to standard output
    with contextlib.redirect_stdout(sys.stderr):
        traces, seconds = _search(kernel, machine, request)
    failed = {} if traces else {"failed": "no candidate could be built and run"}
    measured = sum(map(math.isfinite, seconds))
    answer = {**failed, "traces": traces, "trials": measured, "seconds": seconds}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def prepare_builder() -> None:
    """Prepare a builder process of MetaSchedule, before it compiles."""
    from tvmconv.tvm_api import meta_schedule as ms
    from tvmconv.tvm_api.ffi import register_global_func

    ms.load_cpu_intrinsics()
    register_global_func(_EXPORT, _export, override=True)


def _export(module: Any) -> str:
    """Link a candidate for the device; returns the path of the shared object."""
    from tvmconv.compile.toolchain import Toolchain

    path = Path(tempfile.mkdtemp(prefix="tvmconv-")) / "candidate.so"
    toolchain = Toolchain.find(triple=os.environ[_TRIPLE])
    module.export_library(str(path), fcompile=toolchain.share)
    return str(path)


def _search(
    kernel: Kernel, machine: Machine, request: Mapping[str, Any]
) -> tuple[list[str], list[float]]:
    """The texts of the fastest traces, and the seconds of all candidates in order."""
    from tvmconv.tvm_api import ir
    from tvmconv.tvm_api import meta_schedule as ms
    from tvmconv.tvm_api.target import Target

    ms.load_cpu_intrinsics()
    trials, remote = int(request["trials"]), request["remote"]
    logging.getLogger("tvm").setLevel(logging.ERROR)
    evaluator = ms.runner.EvaluatorConfig(number=1, repeat=_REPEATS, min_repeat_ms=20)
    runner = (
        ms.runner.RPCRunner(ms.rpc_config(**remote), evaluator)
        if remote
        else ms.runner.LocalRunner(evaluator_config=evaluator)
    )
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        database = ms.tune_tir(
            mod=ir.IRModule({"main": kernel.unscheduled()}),
            target=Target(machine.tvm_target()),
            work_dir=folder,
            max_trials_global=trials,
            num_trials_per_iter=min(_BATCH, trials),
            num_tuning_cores=host_cores(),
            # the one in files returns its records sorted by time
            database=ms.database.MemoryDatabase(),
            strategy="evolutionary",
            cost_model="xgb",
            builder=ms.builder.LocalBuilder(
                max_workers=host_cores(),
                timeout_sec=_BUILD_SECONDS,
                f_export=_EXPORT if remote else None,
                initializer=prepare_builder,
            ),
            runner=runner,
            seed=int(request["seed"]),
        )
    records = database.get_all_tuning_records()
    timed = [record for record in records if math.isfinite(_seconds(record))]
    return _texts(sorted(timed, key=_seconds)), [_seconds(record) for record in records]


def _seconds(record: Any) -> float:
    """The mean time of a candidate; infinite if it failed, for which MetaSchedule writes 1e10."""
    samples = [float(sample) for sample in record.run_secs or ()]
    mean = sum(samples) / len(samples) if samples else math.inf
    return mean if mean < _FAILED else math.inf


def _texts(records: list[Any]) -> list[str]:
    """The traces of the first records that builds can read."""
    from tvmconv.tvm_api.meta_schedule import trace_data

    texts: dict[str, None] = {}
    for record in records:
        with contextlib.suppress(ConfigError):
            texts.setdefault(trace_text(trace_data(record.trace)))
        if len(texts) == _FINALISTS:
            break
    return list(texts)


if __name__ == "__main__":
    main()
