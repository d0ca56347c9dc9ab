"""One candidate in its own process: build the kernel, verify its output, take times."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tvmconv.algorithms.operands import output_shape
from tvmconv.core.config import Config
from tvmconv.core.stored_types import numpy_type
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.gate import GuardedCode
from tvmconv.machines.stored import read_device
from tvmconv.measuring.operands import arranged, as_result, random_operands, typed, unblocked
from tvmconv.tuning.gpu_runner import make_gpu_runner
from tvmconv.tuning.runner import CandidateRunner, make_runner
from tvmconv.tvm_api.types import DeviceTensor

# max|error| / max|reference| that any kernel may have, and how far above its own estimate
_ERROR_FLOOR = 1e-5
_ERROR_FACTOR = 4.0
# steps that approximate a function
_APPROXIMATED = {"sigmoid", "hardswish", "silu", "gelu", "gelutanh", "tanh"}
# fits into 8 bits
_POISON = 100
_SEED = 0


def warm_up() -> None:
    """Import modules of every candidate, and compile one kernel so that LLVM is set up.

    No kernel runs here: the thread pool of a run would not survive a fork.
    """
    from tvmconv.machines.targets import resolve_machine
    from tvmconv.tvm_runtime.environment import set_environment_defaults

    set_environment_defaults()
    machine = resolve_machine("native", 1)
    workload = Conv2dWorkload.parse("mb1ic16ih4oc16kh1")
    compile_kernel(make_kernel(workload, machine, "direct"))


def compile_kernel(kernel: Kernel, draft: bool = False) -> GuardedCode:
    """Machine code of a kernel, as in a built network or as a draft."""
    from tvmconv.machines.record import processor
    from tvmconv.tir.pipeline import compile_function

    return compile_function(kernel.prim_func(), processor(kernel.machine), draft)


def error_limit(kernel: Kernel) -> float:
    """The max|error| / max|reference| beyond which a kernel is wrong."""
    estimate = kernel.expression.error_estimate(kernel.workload, kernel.machine, kernel.config)
    return max(_ERROR_FLOOR, _ERROR_FACTOR * estimate) + kernel.workload.types.rounding


class SeededOperands:
    """Seeded operands of a workload and its exact result, shared by all its candidates.

    ``workload`` is a problem string, ``lanes`` the channel block of the layout.
    """

    def __init__(self, workload: str, lanes: int) -> None:
        from tvmconv.algorithms.winograd.integers import safe_sum
        from tvmconv.measuring.integers import exact_output, exactly_added, random_integers

        w = self.workload = Conv2dWorkload.parse(workload)
        if w.types.is_integer:
            # weights decide which tiles are exact, not how long they take
            operands = exactly_added(w, random_integers(w, _SEED, safe_sum(), halved=True))
            data, residual = operands.data, operands.residual
            self.constants = operands.constants
            self.expected = exact_output(w, operands)
        else:
            data, residual = self._floating()
        self.scale = float(np.abs(self.expected).max()) or 1.0
        self.data = arranged(data, w, lanes, _POISON)
        self.residual = None if residual is None else as_result(residual, w, lanes, _POISON)

    @property
    def _is_exact(self) -> bool:
        """Whether every value is known: integers, and no approximated function."""
        steps = {step.kind for step in self.workload.epilogue}
        return self.workload.types.is_integer and not steps & _APPROXIMATED

    def _floating(self) -> tuple[Array, Array | None]:
        """Data and residual in their types; the constants and the result are set."""
        from tvmconv.kernels.arguments import Constants
        from tvmconv.measuring.reference import convolution

        w = self.workload
        inputs, constants = random_operands(w, _SEED)
        weight = typed(constants["weight"], w.types.weight)
        self.constants = Constants(weight, constants.get("bias"))
        self.expected = convolution(w, inputs, constants).astype(np.float32)
        residual = inputs.get("residual")
        if residual is not None:
            residual = typed(residual, w.types.output)
        return typed(inputs["data"], w.types.data), residual

    def arrays(self, kernel: Kernel) -> list[Array]:
        """The arguments of a kernel, with an output that holds NaN where its type has it."""
        from tvmconv.kernels.arguments import constant_arguments

        w, machine = kernel.workload, kernel.machine
        arrays = [self.data, *constant_arguments(kernel, self.constants)]
        arrays += [self.residual] if self.residual is not None else []
        empty = np.nan if "float" in w.types.output else _POISON
        return [*arrays, np.full(output_shape(w, machine), empty, numpy_type(w.types.output))]

    def judged(self, kernel: Kernel, output: Array) -> dict[str, Any]:
        """An output compared with the exact result."""
        w = kernel.workload
        plain = unblocked(output, w.out_channels).astype(np.float64)
        difference = np.abs(plain - self.expected).max()
        # surplus lanes may hold any finite number
        finite = bool(np.isfinite(output).all())
        error = float(difference) / self.scale if finite else 1.0
        limit = 0.0 if self._is_exact else error_limit(kernel)
        if w.types.is_requantised and not self._is_exact:
            # rounding to 8 bits may differ by one step
            limit = 1.001 / self.scale
        correct = finite and error <= limit
        return {"status": "correct" if correct else "wrong", "error": error, "limit": limit}


class CandidateKernels:
    """Built kernels of one workload that wait for orders; usually one.

    ``runner`` is where their machine code runs, ``build_seconds`` the time of the build.
    """

    def __init__(
        self,
        operands: SeededOperands,
        kernels: list[Kernel],
        runner: CandidateRunner,
        build_seconds: float = 0.0,
    ) -> None:
        self.operands = operands
        self.kernels = kernels
        self.runner = runner
        self.build_seconds = build_seconds
        self.tensors: dict[int, list[DeviceTensor]] = {}

    @classmethod
    def build(cls, operands: SeededOperands, request: dict[str, Any]) -> CandidateKernels:
        """Compile the kernels of a request.

        ``machine`` holds the fields of the machine model, ``choices`` pairs of algorithm and
        config, ``remote`` the device of a tracker. ``draft`` asks for less of LLVM's work. Errors
        of schedule and compiler pass through.
        """
        machine = read_device(request["machine"])
        start = time.perf_counter()
        kernels = [
            make_kernel(operands.workload, machine, algorithm, Config.from_json(config))
            for algorithm, config in request["choices"]
        ]
        remote = request.get("remote")
        if isinstance(machine, CudaMachine):
            runner = make_gpu_runner(remote, kernels, operands.constants)
        else:
            draft = bool(request.get("draft"))
            modules = [compile_kernel(kernel, draft) for kernel in kernels]
            runner = make_runner(remote, modules, machine)
        return cls(operands, kernels, runner, time.perf_counter() - start)

    def facts(self) -> dict[str, Any]:
        """Facts that are known before anything is timed.

        A local kernel is verified at once, while others are built. A device waits for its turn.
        """
        facts: dict[str, Any] = {
            "build_seconds": self.build_seconds,
            "spill_bytes": self.runner.spill_bytes,
        }
        if not self.runner.shared:
            facts["check"] = self.verify()
        return facts

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """``verify``, ``time`` (``samples`` of at least ``seconds`` each) or ``interleave``.

        A kernel that takes longer than ``most`` seconds gets one sample.
        """
        if order["do"] == "verify":
            return self.verify()
        if order["do"] == "time":
            count, seconds = int(order["samples"]), float(order["seconds"])
            if (most := order.get("most")) is not None:
                (once,) = self._time(0, 1, 0.0)
                if once > float(most):
                    return {"status": "timed", "samples": [once]}
            return {"status": "timed", "samples": self._time(0, count, seconds)}
        return self.interleave(int(order["rounds"]), float(order["seconds"]))

    def verify(self, number: int = 0) -> dict[str, Any]:
        """Run a kernel once and compare with the exact result."""
        kernel = self.kernels[number]
        arrays = self.operands.arrays(kernel)
        tensors = self.tensors[number] = self.runner.tensors(arrays)
        start = time.perf_counter()
        self.runner.call(number, tensors)
        seconds = time.perf_counter() - start
        output = tensors[-1].numpy().reshape(arrays[-1].shape)
        return {**self.operands.judged(kernel, output), "seconds": seconds}

    def interleave(self, rounds: int, seconds: float) -> dict[str, Any]:
        """Verify all kernels, then take one sample of each in every round."""
        checks = [self.verify(number) for number in range(len(self.kernels))]
        samples: list[list[float]] = [[] for _ in self.kernels]
        for _ in range(rounds):
            for number, check in enumerate(checks):
                if check["status"] == "correct":
                    samples[number] += self._time(number, 1, seconds)
        return {"status": "interleaved", "checks": checks, "samples": samples}

    def _time(self, number: int, samples: int, seconds: float) -> list[float]:
        return self.runner.time(number, self.tensors[number], samples, seconds)
