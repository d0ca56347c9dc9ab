"""Drawn models, converted but not built: the graph that the reader writes has the same results.

Other runtimes compute both, which is much faster than building.
"""

from __future__ import annotations

import warnings
import zlib

import numpy as np
import onnx

from tests.fuzz.compared import agrees, expect_bad_data
from tests.fuzz.disputed import ROUNDS
from tests.fuzz.drawn import Drawn
from tests.fuzz.runner import Note
from tests.fuzz.runtimes import random_feeds
from tests.fuzz.sized_graph import run_graph
from tvmconv.frontend.operators import CONTROL, EXPANDED


class Reading(Drawn):
    """Valid models: composed, inlined, folded and simplified."""

    batch = 256

    def compare(self, case: bytes, note: Note) -> bool:
        from tvmconv.frontend import read_model, to_relax

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = read_model(case)
            to_relax(loaded)
        feeds = random_feeds(loaded.inputs, zlib.crc32(case))
        case = _rounding(case)
        note("reference")
        if loaded.graph.extents and any(node.op in CONTROL for node in loaded.graph.nodes):
            return False
        if loaded.graph.extents:
            try:
                with np.errstate(all="ignore"):
                    actual = run_graph(loaded.graph, feeds)
            except Exception as error:  # any error of another runtime
                expect_bad_data(case, feeds, error)
                return False
            return agrees(case, feeds, lambda _: actual)
        data = loaded.proto.SerializeToString()
        return agrees(case, feeds, lambda runtime: runtime(data, feeds))


def _rounding(case: bytes) -> bytes:
    """Operators of integers, which the reader writes in FP32, may be a step off."""
    model = onnx.ModelProto.FromString(case)
    lists = [model.graph.node, *(function.node for function in model.functions)]
    if any(node.op_type in EXPANDED for nodes in lists for node in nodes):
        model.graph.doc_string = ROUNDS
    return model.SerializeToString()
