"""tvmconv itself: a built model, or one convolution kernel with blocked input and output."""

from __future__ import annotations

from .case import Array, Case, Session, Unsupported


def version() -> str:
    """Version of tvmconv."""
    import tvmconv

    return tvmconv.__version__


def prepare(case: Case, threads: int) -> Session:
    """A layer where the options name a workload and an algorithm, else the whole model."""
    return _layer(case, threads) if "workload" in case.options else _model(case, threads)


def _model(case: Case, threads: int) -> Session:
    import tvmconv

    shapes = {name: tuple(value.shape) for name, value in case.inputs.items()}
    model = tvmconv.build(
        case.onnx, case.options.get("target", "native"), shapes=shapes, threads=threads
    )
    call = model.bind(dict(case.inputs))

    def outputs() -> dict[str, Array]:
        return dict(zip(case.outputs, call.outputs(), strict=True))

    return Session(call, outputs)


def _layer(case: Case, threads: int) -> Session:
    from tvmconv.config import Config
    from tvmconv.errors import ConfigError
    from tvmconv.kernel import make_kernel
    from tvmconv.report.kernel_run import KernelRun
    from tvmconv.target import resolve_machine
    from tvmconv.workload import Conv2dWorkload

    workload = Conv2dWorkload.parse(case.options["workload"])
    machine = resolve_machine(case.options.get("target", "native"), threads)
    knobs = case.options.get("config")
    try:
        config = None if knobs is None else Config.from_json(knobs)
        kernel = make_kernel(workload, machine, case.options["algorithm"], config)
    except ConfigError as error:
        raise Unsupported(str(error)) from None
    run = KernelRun(kernel, case.inputs, case.constants, threads)
    return Session(run, lambda: {case.outputs[0]: run.output()}, info=str(kernel.config))
