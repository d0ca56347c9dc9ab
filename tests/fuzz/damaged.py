"""Drawn models of all operators, damaged: converted, and a few of them built and compared."""

from __future__ import annotations

import random
import warnings

import onnx

from tests.fuzz.compared import compare
from tests.fuzz.drawn import draw
from tests.fuzz.functions import damage_functions, move_into_functions
from tests.fuzz.model_mutations import mutate
from tests.fuzz.models import prepare
from tests.fuzz.runner import Note

# one of so many is built
_BUILT = 64


class Damaged:
    """Drawn models with wrong nodes, shapes, functions, sub-graphs and bytes."""

    batch = 256

    def __init__(self) -> None:
        prepare()

    def make(self, generator: random.Random) -> bytes:
        first, second = (onnx.ModelProto.FromString(draw(generator)) for _ in range(2))
        if generator.random() < 0.2:
            if not first.functions:
                move_into_functions(first, generator)
            if first.functions:
                damage_functions(first, generator)
                return first.SerializeToString()
        return mutate([first, second], generator, flips=(0,) * 7 + (1,))

    def files(self, case: bytes) -> dict[str, bytes]:
        return {"model.onnx": case}

    def judge(self, case: bytes, note: Note) -> bool:
        from tvmconv.frontend import read_model, to_relax

        if len(case) % _BUILT == 0:
            return compare(case, note)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            to_relax(read_model(case))
        return False
