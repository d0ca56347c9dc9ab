"""oneDNN through its C API: one convolution, every tensor in the layout that oneDNN chooses."""

from __future__ import annotations

from .case import Case, Session, Unsupported
from .onednn_engine import Dims, Engine, version

__all__ = ["prepare", "version"]

# oneapi/dnnl/dnnl_types.h, oneDNN 3
_INFERENCE, _AUTO = 96, 3
_QUERY_SRC, _QUERY_WEIGHTS, _QUERY_DST = 129, 131, 133


def prepare(case: Case, threads: int) -> Session:
    """Weights and data reordered once, outside the call; threads follow the CPU affinity."""
    if len(case.nodes) == 1 and case.nodes[0].op == "MatMul":
        return _product(case, Engine())
    if len(case.nodes) != 1 or case.nodes[0].op != "Conv":
        raise Unsupported("one convolution without epilogue only")
    node = case.nodes[0]
    _, data = case.single_input()
    a = node.attrs
    weight = case.constant(node.input(1))
    groups = a["group"]
    if groups > 1:
        weight = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    engine = Engine()
    shape = case.shapes[node.output]
    bias = case.constant(node.input(2)) if node.input(2) else None
    descriptors = [engine.any_layout(s) for s in (data.shape, weight.shape, shape)]
    bias_descriptor = engine.plain(bias.shape) if bias is not None else None
    rank = len(a["strides"])
    primitive_descriptor = engine.create(
        "dnnl_convolution_forward_primitive_desc_create",
        engine.handle,
        _INFERENCE,
        _AUTO,
        descriptors[0],
        descriptors[1],
        bias_descriptor,
        descriptors[2],
        Dims(*a["strides"]),
        Dims(*(d - 1 for d in a["dilations"])),
        Dims(*a["pads"][:rank]),
        Dims(*a["pads"][rank:]),
        None,
    )
    source = engine.packed(data, engine.query(primitive_descriptor, _QUERY_SRC))
    kernel = engine.packed(weight, engine.query(primitive_descriptor, _QUERY_WEIGHTS))
    inputs = [(Engine.SRC, source), (Engine.WEIGHTS, kernel)]
    if bias is not None:
        inputs.append((Engine.BIAS, engine.packed(bias, bias_descriptor)))
    result = engine.memory(engine.query(primitive_descriptor, _QUERY_DST))
    return engine.session(primitive_descriptor, inputs, result, node.output, shape)


def _product(case: Case, engine: Engine) -> Session:
    """One product of two row-major inputs, both packed in the call."""
    node = case.nodes[0]
    a, b = case.product()
    shape = case.shapes[node.output]
    descriptors = [engine.plain(s) for s in (a.shape, b.shape, shape)]
    primitive_descriptor = engine.create(
        "dnnl_matmul_primitive_desc_create",
        engine.handle,
        descriptors[0],
        descriptors[1],
        None,
        descriptors[2],
        None,
    )
    inputs = [
        (engine.SRC, engine.packed(a, descriptors[0])),
        (engine.WEIGHTS, engine.packed(b, descriptors[1])),
    ]
    result = engine.memory(descriptors[2])
    return engine.session(primitive_descriptor, inputs, result, node.output, shape)
