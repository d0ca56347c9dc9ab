"""tvmconv itself: a built model, or one convolution kernel with blocked input and output."""

from __future__ import annotations

import numpy as np

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
    import tvm

    from tvmconv.errors import ConfigError
    from tvmconv.kernel import make_kernel
    from tvmconv.runtime.threads import call
    from tvmconv.target import resolve_machine
    from tvmconv.workload import Conv2dWorkload

    workload = Conv2dWorkload.parse(case.options["workload"])
    machine = resolve_machine(case.options.get("target", "native"), threads)
    try:
        kernel = make_kernel(workload, machine, case.options["algorithm"])
    except ConfigError as error:
        raise Unsupported(str(error)) from None
    library = tvm.tirx.build(
        tvm.IRModule({"main": kernel.prim_func()}), target=tvm.target.Target(machine.tvm_target())
    )
    lanes = machine.lanes
    data = case.inputs["data"]
    values = [data if workload.data_layout == "NCHW" else _blocked(data, lanes)]
    values.append(kernel.pack_weight(case.constants["weight"]))
    if workload.has("bias"):
        bias = case.constants["bias"][None, :, None, None]
        values.append(_blocked(bias, lanes).reshape(-1, lanes))
    if workload.has("add"):
        values.append(_blocked(case.inputs["residual"], lanes))
    arguments = [tvm.runtime.tensor(np.ascontiguousarray(v, "float32")) for v in values]
    shape = (
        workload.batch,
        machine.blocks(workload.out_channels),
        workload.out_height,
        workload.out_width,
        lanes,
    )
    result = tvm.runtime.empty(shape, "float32")
    function = library["main"]

    def outputs() -> dict[str, Array]:
        plain = result.numpy().transpose(0, 1, 4, 2, 3).reshape(shape[0], -1, *shape[2:4])
        return {case.outputs[0]: plain[:, : workload.out_channels]}

    def run() -> None:
        call(threads, function, *arguments, result)

    return Session(run, outputs, info=str(kernel.config))


def _blocked(array: Array, lanes: int) -> Array:
    """NCHW to NCHWc, the last block filled with zeros."""
    n, c, h, w = array.shape
    blocks = -(-c // lanes)
    padded = np.pad(array, ((0, 0), (0, blocks * lanes - c), (0, 0), (0, 0)))
    return padded.reshape(n, blocks, lanes, h, w).transpose(0, 1, 3, 4, 2)
