"""The plain loops of direct convolution in C, as the authors of im2win compare with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .c_code import library, pointer, version
from .case import Array, Case, CaseNode, Session, Unsupported

__all__ = ["prepare", "single_convolution", "sizes_of", "version"]

_SOURCE = Path(__file__).with_name("c") / "direct_loops.c"


def prepare(case: Case, threads: int) -> Session:
    """NCHW to NCHW; threads come from ``OMP_NUM_THREADS``."""
    node, data, weight, bias = single_convolution(case)
    sizes = sizes_of(case, node)
    function = library(case.folder, _SOURCE, sizes).direct_loops
    output: Array = np.empty(case.shapes[node.output], np.float32)
    operands = [pointer(each) for each in (data, weight, bias, output)]

    def run() -> None:
        function(*operands)

    return Session(run, lambda: {node.output: output}, info=version())


def single_convolution(case: Case) -> tuple[CaseNode, Array, Array, Array | None]:
    """The node, data, weight and bias of a case that is one convolution without groups."""
    if len(case.nodes) != 1 or case.nodes[0].op != "Conv":
        raise Unsupported("one convolution without epilogue only")
    node = case.nodes[0]
    if node.attrs["group"] != 1 or len(node.attrs["strides"]) != 2:
        raise Unsupported("two-dimensional convolutions without groups only")
    _, data = case.single_input()
    values = [data, *(case.constant(name) for name in node.inputs[1:] if name)]
    if any(value.dtype != np.float32 for value in values):
        raise Unsupported("FP32 only")
    data, weight, *bias = (np.ascontiguousarray(value) for value in values)
    return node, data, weight, bias[0] if bias else None


def sizes_of(case: Case, node: CaseNode) -> dict[str, int]:
    """The sizes of a convolution by the names of the C files."""
    a = node.attrs
    shapes = [case.shapes[name] for name in (*node.inputs[:2], node.output)]
    (n, c, h, w), (k, _, r, s), (_, _, oh, ow) = shapes
    (sh, sw), (dh, dw), (top, left, *_) = a["strides"], a["dilations"], a["pads"]
    return {
        **{"N": n, "C": c, "H": h, "W": w, "K": k, "R": r, "S": s, "OH": oh, "OW": ow},
        **{"SH": sh, "SW": sw, "DH": dh, "DW": dw, "PT": top, "PL": left},
        "PADDED": int(any(a["pads"])),
    }
