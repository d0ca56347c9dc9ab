"""Passes for people who have a Relax pipeline of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tvmconv.core import errors
from tvmconv.machines.targets import TargetLike, resolve_device
from tvmconv.records.lookup import search_path
from tvmconv.selection.policy import check_precision, make_policy
from tvmconv.tvm_api import ir
from tvmconv.tvm_api.ffi import register_error
from tvmconv.tvm_api.types import IRModule, Pass

if TYPE_CHECKING:
    from tvmconv.selection.policy import Overrides

__all__ = ["ScheduleOperators", "SubstituteConv2d"]


def SubstituteConv2d(
    target: TargetLike = "native",
    threads: int | None = None,
    algorithms: Sequence[str] | None = None,
    *,
    error_budget: float | None = None,
    memory_budget: int | None = None,
    overrides: Overrides | None = None,
    finite: bool = True,
    requantize: str = "float",
    precision: str = "float32",
    log: str | os.PathLike[str] | None = None,
) -> Pass:
    """Replace convolutions by tvmconv's kernels.

    Works on every dataflow block of every Relax function. A convolution with its batch
    normalization, bias, residual addition and activation becomes one call of a compiled kernel
    with packed weights. The machine code is the same as in a model of :func:`tvmconv.build`. It is
    an external module of the result, compiled for the target of the pass and not of
    ``relax.build``.

    Consecutive calls of kernels become one call. The pass plans its memory, and Relax allocates it.
    The module's attribute ``"tvmconv.calls"`` maps the name of the call to the names of its
    kernels. Activations stay in the kernels' channel-blocked layout between convolutions, so the
    pass also rewrites the operators in between. These include calls of unscheduled functions that
    compute arithmetic, a clip, sigmoid, tanh or a padding, as TVM's ONNX importer and ``topi``
    write them. A clip keeps NaN.

    For a CUDA target, the kernels are machine code of the GPU. Pass the same target to
    ``relax.build``. Launches go to the stream that TVM sets.

    Quantized convolutions and dense layers, between ``dequantize`` and ``quantize``, become INT8
    kernels, as in a build.

    Everything else is unchanged and legal for ``relax.build``. The pass warns of a convolution
    whose weight is not a constant, and leaves it: run ``relax.transform.BindParams`` first.

    Parameters
    ----------
    target
        As for :func:`tvmconv.build`: one CPU, or a GPU such as ``"cuda:sm_90"``.
    threads
        Threads that the kernels are partitioned for; by default all CPUs of this process. A GPU's
        kernels are called by one thread.
    algorithms
        Algorithms to choose from; by default all.
    error_budget, memory_budget, overrides, finite, requantize, precision, log
        As for :func:`tvmconv.build`; tuning logs are used as there.

    Returns
    -------
    tvm.transform.Pass
        A module pass.

    Raises
    ------
    TargetError
        If the target is unknown.
    ConfigError
        If an algorithm's name is unknown, or the target lacks the precision. When the pass runs: if
        no allowed algorithm computes a layer within the budgets, or an override matches no layer.
    ArtifactError
        When the pass runs, for a CUDA target: if nvcc and NVRTC, or a C compiler, are missing.

    Examples
    --------
    >>> import numpy as np, tvm
    >>> from tvm import relax
    >>> from tvmconv.transform import ScheduleOperators, SubstituteConv2d
    >>> x = relax.Var("x", relax.TensorType((1, 16, 8, 8), "float32"))
    >>> weight = relax.const(np.ones((32, 16, 3, 3), "float32"))
    >>> builder = relax.BlockBuilder()
    >>> with builder.function("main", [x]):
    ...     with builder.dataflow():
    ...         y = builder.emit(relax.op.nn.conv2d(x, weight, padding=1))
    ...         result = builder.emit_output(relax.op.nn.relu(y))
    ...     _ = builder.emit_func_output(result)
    >>> pipeline = tvm.transform.Sequential(
    ...     [
    ...         SubstituteConv2d("native", threads=1),
    ...         relax.transform.LegalizeOps(),
    ...         relax.transform.AnnotateTIROpPattern(),
    ...         relax.transform.FuseOps(),
    ...         relax.transform.FuseTIR(),
    ...         ScheduleOperators("native", threads=1),
    ...     ]
    ... )
    >>> executable = relax.build(pipeline(builder.get()), target="llvm")
    >>> run = relax.VirtualMachine(executable, tvm.cpu())["main"]
    >>> result = run(tvm.runtime.tensor(np.ones((1, 16, 8, 8), "float32"))).numpy()
    >>> round(float(result[0, 0, 4, 4]), 3)
    144.0
    """
    machine = resolve_device(target, threads)
    policy = make_policy(
        algorithms,
        error_budget,
        memory_budget,
        overrides,
        search_path(log),
        finite,
        requantize,
        precision,
    )
    check_precision(policy, machine)

    def transform(mod: IRModule, context: object) -> IRModule:
        from tvmconv.graph.substitute import substitute

        return substitute(mod, machine, policy)

    return _module_pass(transform, "tvmconv.SubstituteConv2d")


def ScheduleOperators(target: TargetLike = "native", threads: int | None = None) -> Pass:
    """Schedule and compile every other function; the last pass before ``relax.build``.

    Without it, operators between the convolutions run as plain serial loops. Consecutive calls of
    these functions become one call, too. Functions of symbolic shape are scheduled only, and
    ``relax.build`` compiles them. For a CUDA target, ``relax.build`` schedules these, too.

    Parameters
    ----------
    target, threads
        As for :func:`SubstituteConv2d`.

    Returns
    -------
    tvm.transform.Pass
        A module pass.

    Raises
    ------
    TargetError
        If the target is unknown.
    ModelError
        When the pass runs, for a CUDA target: if a function has no kernel for GPUs.
    """
    machine = resolve_device(target, threads)

    def transform(mod: IRModule, context: object) -> IRModule:
        from tvmconv.compile.external import compile_functions, schedule_functions
        from tvmconv.kernels.compiler_lock import compiler_lock

        with compiler_lock():
            scheduled = schedule_functions(mod, machine)
        return compile_functions(scheduled, machine, lambda _var, _func: True)

    return _module_pass(transform, "tvmconv.ScheduleOperators")


def _module_pass(transform: Callable[[IRModule, object], IRModule], name: str) -> Pass:
    """A pass that raises tvmconv's own errors."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.TvmconvError):
            # TVM raises a RuntimeError in place of an error whose class it does not know
            register_error(f"tvmconv.{kind.__name__}", kind)
    return ir.transform.module_pass(transform, opt_level=0, name=name)
