"""A kernel as text, at any point between its schedule and its machine code."""

from __future__ import annotations

from difflib import get_close_matches

from tvmconv.core.decision import Decision
from tvmconv.core.errors import InputError
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.record import processor
from tvmconv.tir.pipeline import Pipeline, c_calls, compile_function, pipeline
from tvmconv.tvm_api import ir

FORMS = "tir, asm or after:PASS"
_AFTER = "after:"


def kernel_text(kernel: Kernel, form: str) -> str:
    """A kernel as text.

    The form ``tir`` is the scheduled function, and ``after:PASS`` the function after the passes up
    to this one. :func:`tvmconv.tir.pipeline.pipeline` names the passes of CPUs, and
    :mod:`tvmconv.tir.cuda.pipeline` the passes of GPUs. ``asm`` is assembly, or for a GPU the CUDA
    source.
    """
    if form == "tir":
        return kernel.prim_func().script()
    if form == "asm":
        if isinstance(kernel.machine, CudaMachine):
            from tvmconv.tir.cuda.lowering import cuda_code

            return cuda_code(kernel.prim_func(), kernel.machine).source
        machine = processor(kernel.machine)
        return str(compile_function(kernel.prim_func(), machine, calls=c_calls).inspect_source("s"))
    if not form.startswith(_AFTER):
        raise InputError(f"unknown --show {form!r}. Expected {FORMS}.")
    passes = _passes(kernel.machine)
    try:
        some = passes.until(form.removeprefix(_AFTER))
    except ValueError as error:
        raise InputError(f"--show {form}: {error}") from None
    module = some(ir.IRModule({"main": kernel.prim_func()}))
    # GPU: passes divide a function into kernels and a function that launches them
    return "\n".join(str(func.script()) for _, func in module.functions_items())


def _passes(machine: Device) -> Pipeline:
    if isinstance(machine, CudaMachine):
        from tvmconv.tir.cuda.pipeline import pipeline as cuda_pipeline

        return cuda_pipeline(machine)
    return pipeline(processor(machine), c_calls)


def find_layer(decisions: tuple[Decision, ...], layer: str) -> Decision:
    """The decision of a layer; raises :class:`InputError` if no layer has the name."""
    named = {d.layer: d for d in decisions}
    if layer not in named:
        near = ", ".join(get_close_matches(layer, named, 1) or list(named)[:3])
        known = f"Expected a layer's name, for example {near}." if near else ""
        raise InputError(
            f"unknown layer {layer!r}. {known or 'No layer of this model has a choice of kernels.'}"
        )
    return named[layer]


def layer_kernel(decisions: tuple[Decision, ...], machine: Device, layer: str) -> Kernel:
    """The kernel of a layer; raises :class:`InputError` if no layer has the name."""
    decision = find_layer(decisions, layer)
    chosen = decision.chosen
    return Kernel(decision.workload, machine, chosen.algorithm, chosen.config)
