"""``--search metaschedule``: MetaSchedule's own sketch rules on our tensor expression.

It runs in a process of its own, ``python -m tvmconv.tuning.auto``: a request on standard input, the
measured result on standard output. The winner is verified and measured interleaved with tvmconv's
default. Its schedule is a trace of TVM, not a set of knobs: it is logged, but no build uses it.
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
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.host import host_cores
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_machine
from tvmconv.measuring.processes import die_with_parent, package_path
from tvmconv.tuning.pool import Choice
from tvmconv.tuning.settings import Settings
from tvmconv.tvm_api.types import PrimFunc

_BATCH = 32
_BUILD_SECONDS = 60.0
_SECONDS_A_TRIAL = 30.0


def run(
    workload: Conv2dWorkload,
    machine: Machine,
    expression: Choice,
    default: Choice,
    settings: Settings,
    rival: Choice | None = None,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Tune one workload by MetaSchedule and measure its best interleaved with others.

    ``expression`` names algorithm and config whose tensor expression is scheduled. The result is
    compared with ``default`` and, if given, with ``rival``. A search that takes more than
    ``seconds`` has no result. Returns the measured ``trials``, and ``checks`` and ``samples`` of
    the default, the result and the rival, in this order. Or it returns ``failed`` with the reason.
    Raises :class:`ArtifactError` if this CPU cannot run code for the machine.
    """
    # MetaSchedule calls what it compiles by itself
    ensure_machine(machine, f"a candidate of {workload}")
    request = {
        "workload": str(workload),
        "machine": machine.to_json(),
        "expression": [expression[0], expression[1].to_json()],
        "default": [default[0], default[1].to_json()],
        "rival": [rival[0], rival[1].to_json()] if rival else None,
        "trials": settings.trials,
        "seed": settings.seed,
        "rounds": settings.final.rounds,
        "seconds": settings.final.seconds,
    }
    environment = {
        **os.environ,
        "TVM_NUM_THREADS": str(machine.cores),
        "PYTHONPATH": package_path(),
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
    from tvmconv.tir.pipeline import compile_function
    from tvmconv.tuning.candidate import CandidateKernels, SeededOperands, compile_kernel
    from tvmconv.tuning.runner import make_runner, stay

    die_with_parent()
    request = json.loads(sys.stdin.read())
    machine = read_machine(request["machine"])
    workload = Conv2dWorkload.parse(request["workload"])
    expression, default = (
        make_kernel(workload, machine, name, Config.from_json(config))
        for name, config in (request["expression"], request["default"])
    )
    kernels = [default, expression]
    if request["rival"]:
        name, config = request["rival"]
        kernels.append(make_kernel(workload, machine, name, Config.from_json(config)))
    # MetaSchedule writes its tables to standard output
    with contextlib.redirect_stdout(sys.stderr):
        function, measured = _tune(expression, int(request["trials"]), int(request["seed"]))
    if function is None:
        answer: dict[str, Any] = {"failed": "no candidate could be built and run"}
    else:
        modules = [
            compile_function(function, machine) if kernel is expression else compile_kernel(kernel)
            for kernel in kernels
        ]
        stay(machine.cores)
        runner = make_runner(None, modules, machine)
        together = CandidateKernels(
            SeededOperands(str(workload), machine.channel_block), kernels, runner
        )
        answer = together.interleave(int(request["rounds"]), float(request["seconds"]))
    sys.stdout.write("\n" + json.dumps({**answer, "trials": measured}) + "\n")


def _tune(kernel: Kernel, trials: int, seed: int) -> tuple[PrimFunc | None, int]:
    """The best scheduled function, and how many candidates ran."""
    from tvmconv.tvm_api import ir
    from tvmconv.tvm_api import meta_schedule as ms
    from tvmconv.tvm_api.target import Target

    ms.load_cpu_intrinsics()
    target = Target(kernel.machine.tvm_target())
    module = ir.IRModule({"main": kernel.unscheduled()})
    logging.getLogger("tvm").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        database = ms.tune_tir(
            mod=module,
            target=target,
            work_dir=folder,
            max_trials_global=trials,
            num_trials_per_iter=min(_BATCH, trials),
            num_tuning_cores=host_cores(),
            strategy="evolutionary",
            cost_model="xgb",
            builder=ms.builder.LocalBuilder(
                max_workers=host_cores(),
                timeout_sec=_BUILD_SECONDS,
                initializer=ms.load_cpu_intrinsics,
            ),
            runner=ms.runner.LocalRunner(
                evaluator_config=ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=20)
            ),
            seed=seed,
        )
        ran = sum(bool(record.run_secs) for record in database.get_all_tuning_records())
        schedule = ms.tir_integration.compile_tir(database, module, target)
    return (schedule.mod["main"] if schedule is not None else None), ran


if __name__ == "__main__":
    main()
