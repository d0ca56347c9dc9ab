"""Case folders for the workers: one layer from its problem string, or a whole ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvmconv.core.errors import InputError, WorkloadError
from tvmconv.core.pool_workload import PoolWorkload
from tvmconv.core.tensor import Array, Shapes
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines.case import PLACES
from tvmconv.lab.bench.case_files import SEED, CaseInfo, write_case
from tvmconv.measuring.layer_model import layer_model, model_of
from tvmconv.measuring.layer_model import node as described
from tvmconv.measuring.operands import rounded
from tvmconv.measuring.quantized import is_quantized
from tvmconv.measuring.reference import convolution, convolution_at, drawn_places, pooled

_DRAWN = 4_194_301


def random_input(shape: Sequence[int], dtype: str, generator: np.random.Generator) -> Array:
    """Normally distributed values, or small non-negative integers for an integer type."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return generator.standard_normal(shape).astype(kind)
    high = 2 if kind.kind == "b" else 4
    return generator.integers(0, high, shape).astype(kind)


def repeated_input(shape: Sequence[int], dtype: str, generator: np.random.Generator) -> Array:
    """Normally distributed values; large arrays repeat a prime number of them.

    Because the number is prime, neighbors in no dimension are equal.
    """
    count = int(np.prod(shape))
    values = generator.standard_normal(min(count, _DRAWN), "float32").astype(dtype)
    return np.resize(values, shape)


def write_layer_case(
    folder: Path, workload: Conv2dWorkload, name: str = "", count: int = 1, places: int = 0
) -> CaseInfo:
    """A folder for one layer with seeded weights, its ONNX file and its float64 output.

    All values are FP32, rounded to the layer's types. Only tvmconv computes in these types. Other
    libraries get the same layer in FP32.

    With ``places``, the reference has so many values of the output, and inputs repeat: gigabytes of
    large batches are not written. Raises :class:`InputError` if the layer's types are integers that
    baselines do not accept.
    """
    import onnx

    w = workload
    if w.types.is_integer:
        # it needs TVM, which a machine with a GPU may lack
        from tvmconv.lab.bench.integer_case import write_integer_case

        return write_integer_case(folder, w, name, count)
    if w.is_volume:
        raise WorkloadError(
            f"other libraries are not timed on single 3-D convolutions: {w}. "
            "Bench a network that has this layer."
        )
    generator = np.random.default_rng(SEED)
    constants = {"weight": random_input(w.weight_shape, "float32", generator)}
    constants["weight"] /= np.float32(np.sqrt(w.taps))
    constants["weight"] = rounded(constants["weight"], w.types.weight)
    draw = repeated_input if places else random_input
    inputs = {"data": rounded(draw(w.data_shape, "float32", generator), w.types.data)}
    result = w.result_shape
    if w.has("bias"):
        constants["bias"] = random_input((w.out_channels,), "float32", generator)
    if w.has("add"):
        residual = draw(result, "float32", generator)
        inputs["residual"] = rounded(residual, w.types.output)
    model, nodes = layer_model(w, constants)
    output = nodes[-1]["outputs"][0]
    shapes = {n: list(v.shape) for n, v in (inputs | constants).items()}
    shapes |= {node["outputs"][0]: list(result) for node in nodes}
    onnx.save(model, folder / "model.onnx")
    if places:
        at = drawn_places(w, places, generator)
        reference = {output: convolution_at(w, inputs, constants, at), output + PLACES: at}
    else:
        reference = {output: convolution(w, inputs, constants)}
    path = folder / "model.onnx"
    repeated = _DRAWN if places else 0
    write_case(folder, path, nodes, shapes, constants, inputs, [output], repeated)
    np.savez(folder / "reference.npz", **reference)  # type: ignore[arg-type]
    return CaseInfo(name or str(w), "layer", str(w), w.flops, count)


def write_pooling_case(
    folder: Path, workload: PoolWorkload, name: str = "", count: int = 1
) -> CaseInfo:
    """A folder for a model of one pooling layer, with its exact output."""
    import onnx

    w = workload
    pooling = described(w.operator, ["data"], "pooled", **w.attributes)
    inputs = {"data": ("float32", w.data_shape)}
    model = model_of([pooling], {}, inputs, {"pooled": ("float32", w.result_shape)})
    onnx.save(model, folder / "model.onnx")
    info = write_model_case(folder, folder / "model.onnx", None)
    with np.load(folder / "inputs.npz") as file:
        np.savez(folder / "reference.npz", pooled=pooled(w, file["data"]))
    return CaseInfo(name or str(w), "pooling", str(w), info.flops, count, images=w.batch)


def batched_model(path: Path, batch: int, folder: Path) -> Path:
    """A copy of a model whose inputs have another batch size, in a folder, by the same name.

    The shapes of other values are removed, because they follow from the inputs. A model with the
    batch size in its constants, as of a Reshape, fails where it is read. Raises :class:`InputError`
    if an input has no dimension.
    """
    import onnx

    model = onnx.load(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        sizes = value.type.tensor_type.shape.dim
        if value.name in constants:
            continue
        if not sizes:
            raise InputError(f"--batch: input {value.name} of {path} has no batch")
        sizes[0].dim_value = batch
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    onnx.save(model, folder / path.name)
    return folder / path.name


def write_model_case(
    folder: Path,
    path: Path,
    shapes: Shapes | None,
    fold_budget: int | None = None,
) -> CaseInfo:
    """A folder for a whole model with seeded inputs; a worker writes the reference.

    ``shapes`` and ``fold_budget`` are arguments of :func:`tvmconv.build`, which fails likewise.
    """
    import onnx

    from tvmconv.frontend import read_model

    loaded = read_model(path, dict(shapes) if shapes else None, fold_budget)
    graph = loaded.graph
    generator = np.random.default_rng(SEED)
    inputs = {t.name: random_input(t.shape, t.dtype, generator) for t in loaded.inputs}
    onnx_path = path.resolve()
    if shapes:
        # baselines get the same fixed shapes
        onnx_path = folder / "model.onnx"
        onnx.save(loaded.proto, onnx_path)
    nodes = []
    flops = 0
    for node in graph.nodes:
        attrs, multiplies = _resolved(node, graph)
        flops += 2 * multiplies
        nodes.append(
            {
                "name": node.name,
                "op": node.op,
                "inputs": list(node.inputs),
                "outputs": list(node.outputs),
                "attrs": attrs,
            }
        )
    value_shapes = {name: list(info.shape) for name, info in graph.types.items()}
    outputs = [t.name for t in loaded.outputs]
    write_case(folder, onnx_path, nodes, value_shapes, graph.constants, inputs, outputs)
    # the first axis is the batch, unless the input has no axes of features and places
    shape = loaded.inputs[0].shape if loaded.inputs else ()
    images = shape[0] if len(shape) > 2 else 1
    return CaseInfo(
        loaded.name, "model", path.name, flops, quantized=is_quantized(path), images=images
    )


def _resolved(node: Any, graph: Any) -> tuple[dict[str, Any], int]:
    """Attributes with explicit windows, and the MACs of convolutions and matrix products."""
    from tvmconv.frontend.windows import conv_window, pool_window

    attrs = {name: _plain(value) for name, value in node.attrs.items()}
    multiplies = 0
    size = int(np.prod(graph.shape(node.outputs[0])))
    if node.op == "Conv":
        weight = graph.shape(node.inputs[1])
        bias = graph.shape(node.input(2)) if node.input(2) else None
        window = conv_window(node, graph.shape(node.inputs[0]), weight, bias)
        multiplies = size * int(np.prod(weight[1:]))
    elif node.op in ("MaxPool", "AveragePool"):
        window = pool_window(node, graph.shape(node.inputs[0]))
    else:
        if node.op in ("Gemm", "MatMul"):
            axis = -2 if node.op == "Gemm" and node.attrs.get("transA", 0) else -1
            multiplies = size * graph.shape(node.inputs[0])[axis]
        return attrs, multiplies
    attrs.pop("auto_pad", None)
    attrs |= {
        "kernel_shape": list(window.kernel),
        "strides": list(window.strides),
        "dilations": list(window.dilations),
        "pads": list(window.padding),
        "extra": list(window.extra),
        "group": window.groups,
    }
    return attrs, multiplies


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value.decode() if isinstance(value, bytes) else value
