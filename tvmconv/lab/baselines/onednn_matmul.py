"""oneDNN's matrix product on row-major tensors, both operands packed in the call."""

from __future__ import annotations

from .case import Case, Session
from .onednn_engine import Engine


def prepare(case: Case, engine: Engine) -> Session:
    """One product of two inputs."""
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
