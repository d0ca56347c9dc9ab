"""Drawn models, converted but not built: the graph that the reader writes has the same results.

Other runtimes compute both, which is much faster than building. Values whose size depends on the
data are left out: no ONNX model tells their largest shapes.
"""

from __future__ import annotations

import warnings
import zlib

from tests.fuzz.compared import agrees, random_feeds
from tests.fuzz.drawn import Drawn
from tests.fuzz.runner import Note


class Reading(Drawn):
    """Valid models: composed, inlined, folded and simplified."""

    batch = 256

    def compare(self, case: bytes, note: Note) -> bool:
        from tvmconv.frontend import read_model, to_relax

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = read_model(case)
            to_relax(loaded)
        if loaded.graph.extents:
            return False
        data = loaded.proto.SerializeToString()
        feeds = random_feeds(loaded.inputs, zlib.crc32(case))
        note("reference")
        return agrees(case, feeds, lambda runtime: runtime(data, feeds)[0])
