"""tvmconv itself: a built model, or one convolution kernel with blocked input and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .case import Array, Case, Session, Unsupported

if TYPE_CHECKING:
    from tvmconv.kernels.kernel import Kernel
    from tvmconv.machines.device import Device
    from tvmconv.model import CompiledModel


def version() -> str:
    """Version of tvmconv."""
    import tvmconv

    return tvmconv.__version__


def prepare(case: Case, threads: int) -> Session:
    """A product or a layer where the options name a workload, else the whole model."""
    if "product" in case.options:
        return _product(case, threads)
    if "workload" in case.options:
        return _layer(case, threads)
    if case.options.get("relax"):
        return _relax(case, threads)
    session = _session(case, model := _built(case, threads))
    if streams := case.options.get("streams"):
        others = [model.bind(dict(case.inputs)) for _ in range(streams - 1)]
        return replace(session, callers=[session.run, *others])
    return session


def export(case: Case, threads: int) -> dict[str, Any]:
    """The saved model; raises :class:`Unsupported` for cases other than models of ``build``."""
    if {"product", "workload", "relax"} & set(case.options):
        raise Unsupported("only models of tvmconv.build are files")
    return {"file": str(_built(case, threads).save(case.folder / "model.so"))}


def open_export(case: Case, threads: int, exported: Mapping[str, Any]) -> Session:
    """Loaded with all checks."""
    import tvmconv

    return _session(case, tvmconv.load(exported["file"]))


def _built(case: Case, threads: int) -> CompiledModel:
    import tvmconv

    shapes = {name: tuple(value.shape) for name, value in case.inputs.items()}
    return tvmconv.build(
        case.onnx,
        case.options.get("target", "native"),
        shapes=shapes,
        threads=threads,
        algorithms=case.options.get("algorithms"),
        log=case.options.get("log"),
        fold_budget=case.options.get("fold_budget"),
    )


def _session(case: Case, model: CompiledModel) -> Session:
    call = model.bind(dict(case.inputs))

    def outputs() -> dict[str, Array]:
        return dict(zip(case.outputs, call.outputs(), strict=True))

    return Session(call, outputs)


def _relax(case: Case, threads: int) -> Session:
    """The README's pipeline: TVM's importer, our passes, plain ``relax.build``."""
    import onnx

    from tvmconv.machines.gate import ensure_machine
    from tvmconv.machines.targets import resolve_machine
    from tvmconv.transform import ScheduleOperators, SubstituteConv2d
    from tvmconv.tvm_api import ir, relax
    from tvmconv.tvm_api import runtime as tvm_runtime
    from tvmconv.tvm_api.onnx_importer import from_onnx
    from tvmconv.tvm_runtime.threads import prepare

    target, transform = case.options.get("target", "native"), relax.transform
    ensure_machine(resolve_machine(target, threads), str(case.onnx))
    prepare(threads)
    shapes = {name: list(value.shape) for name, value in case.inputs.items()}
    substitute = SubstituteConv2d(
        target, threads, case.options.get("algorithms"), log=case.options.get("log")
    )
    pipeline = ir.transform.Sequential(
        [
            substitute,
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FuseOps(),
            transform.FuseTIR(),
            ScheduleOperators(target, threads),
        ]
    )
    module = from_onnx(onnx.load(case.onnx), shape_dict=shapes)
    executable = relax.build(pipeline(module), target="llvm")
    call = relax.VirtualMachine(executable, tvm_runtime.cpu())["main"]
    arguments = [tvm_runtime.tensor(value) for value in case.inputs.values()]

    def outputs() -> dict[str, Array]:
        result = call(*arguments)
        parts = [result] if len(case.outputs) == 1 else list(result)
        return {name: part.numpy() for name, part in zip(case.outputs, parts, strict=True)}

    return Session(lambda: call(*arguments), outputs)


def layer_kernel(case: Case, machine: Device) -> Kernel:
    """The kernel that the options ask for."""
    from tvmconv.core.errors import ConfigError
    from tvmconv.core.workload import Conv2dWorkload
    from tvmconv.lab.bench.variants import asked_kernel

    try:
        return asked_kernel(case.options, Conv2dWorkload.parse(case.options["workload"]), machine)
    except ConfigError as error:
        raise Unsupported(str(error)) from None


def _layer(case: Case, threads: int) -> Session:
    from tvmconv.lab.bench.kernel_run import KernelRun, suited
    from tvmconv.machines.targets import resolve_machine

    kernel = layer_kernel(case, resolve_machine(case.options.get("target", "native"), threads))
    knobs = case.options.get("variant", {}).get("knobs")
    kernel = suited(kernel, case.constants, knobs)
    nchw = bool(case.options.get("nchw"))
    run = KernelRun(kernel, case.inputs, case.constants, threads, nchw)
    # a session with the case would keep its inputs as well as the kernel's own
    name = case.outputs[0]
    return Session(
        run,
        lambda: {name: run.output()},
        info=f"{kernel.algorithm} {kernel.config}",
        facts=run.facts(),
        stages=run.stages() if case.options.get("stages") else {},
        warm=run.touch_activations,
    )


def _product(case: Case, threads: int) -> Session:
    from tvmconv.core.gemm_workload import GemmWorkload
    from tvmconv.lab.bench.gemm_run import GemmRun
    from tvmconv.machines.targets import resolve_machine

    machine = resolve_machine(case.options.get("target", "native"), threads)
    workload = GemmWorkload.parse(case.options["product"])
    prepacked = bool(case.options.get("prepacked"))
    run = GemmRun(workload, machine, case.inputs, threads, prepacked=prepacked)
    name = case.outputs[0]
    config = str(run.kernel.config)
    return Session(run, lambda: {name: run.output()}, info=config, facts=run.facts())
