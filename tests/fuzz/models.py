"""Mutated models: built, run, and compared with onnxruntime or onnx's reference."""

from __future__ import annotations

import os
import random
import threading

from tests.fuzz.compared import build, compare
from tests.fuzz.corpus import corpus
from tests.fuzz.model_mutations import mutate
from tests.fuzz.runner import Note
from tests.small_network import small_network


class Models:
    """The corpus, mutated."""

    batch = 64

    def __init__(self) -> None:
        prepare()
        self.models = corpus()

    def make(self, generator: random.Random) -> bytes:
        return mutate(self.models, generator)

    def files(self, case: bytes) -> dict[str, bytes]:
        return {"model.onnx": case}

    def judge(self, case: bytes, note: Note) -> bool:
        return compare(case, note)


def prepare() -> None:
    """Load and make once what all children use."""
    os.environ.setdefault("TVMCONV_TUNING_LOGS", "none")
    import onnxruntime  # noqa: F401 - loaded once, for all children
    from onnx.reference import ReferenceEvaluator  # noqa: F401

    # in a thread of its own: the pool that TVM makes for it goes with it, not into children
    warm = threading.Thread(target=build, args=(small_network().SerializeToString(),))
    warm.start()
    warm.join()
