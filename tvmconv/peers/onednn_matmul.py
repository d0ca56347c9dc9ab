"""oneDNN's matrix product on row-major tensors, both operands packed in the call."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from .case import Array, Case, Session

if TYPE_CHECKING:
    from .onednn_direct import Engine

# oneapi/dnnl/dnnl_types.h, oneDNN 3
_SRC, _DST, _WEIGHTS = 1, 17, 33
_QUERY_IMPL = 8


def prepare(case: Case, engine: Engine) -> Session:
    """One product of two inputs."""
    from .onednn_direct import arguments_of

    node = case.nodes[0]
    a, b = (case.inputs[name] for name in node.inputs)
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
    primitive = engine.create("dnnl_primitive_create", primitive_descriptor)
    result = engine.memory(descriptors[2])
    memories = [
        (_SRC, engine.packed(a, descriptors[0])),
        (_WEIGHTS, engine.packed(b, descriptors[1])),
        (_DST, result),
    ]
    arguments = arguments_of(memories)

    def run() -> None:
        engine.execute(primitive, arguments)

    def outputs() -> dict[str, Array]:
        return {node.output: engine.unpacked(result, shape)}

    info = ctypes.c_char_p()
    engine.call(
        "dnnl_primitive_desc_query", primitive_descriptor, _QUERY_IMPL, 0, ctypes.byref(info)
    )
    return Session(run, outputs, info=(info.value or b"").decode())
