"""Valid models, drawn operator by operator: built, run, and compared as mutated ones are.

A mutated model is mostly wrong, and its refusal says little. A drawn one is right by onnx's own
inference, so that a refusal counts as a failure, too, unless the documents tell of it.
"""

from __future__ import annotations

import random

import onnx

from tests.fuzz import (
    draw_composed,
    draw_constants,
    draw_control,
    draw_forms,
    draw_indices,
    draw_integers,
    draw_microsoft,
    draw_networks,
    draw_numbers,
    draw_places,
    draw_recurrent,
    draw_signals,
    draw_sizes,
    draw_windows,
)
from tests.fuzz.compared import compare
from tests.fuzz.draft import Draft
from tests.fuzz.functions import move_into_functions
from tests.fuzz.models import prepare
from tests.fuzz.runner import Note, Wrong
from tests.fuzz.runtimes import runs_elsewhere
from tvmconv.core.errors import ModelError

# parts of the reasons for which a valid model is refused
_KNOWN = (
    "depends on the data",
    "is a number without axes",
    "fmod=0",
    "has one point along an axis",
    "bool has no mean values",
    "must be non-negative for OneHot",
    # for a dilated ConvTranspose
    "its weight (input 1) is computed at run time",
)
_OPSETS = (*range(7, onnx.defs.onnx_opset_version() + 1), 13, 17, 18)
# which have most of the composed operators
_NEW_OPSETS = range(23, onnx.defs.onnx_opset_version() + 1)
FAMILIES = (
    draw_numbers.STEPS, draw_places.STEPS, draw_windows.STEPS, draw_windows.STEPS,
    draw_integers.STEPS, draw_constants.STEPS + draw_places.STEPS, draw_forms.STEPS,
    draw_networks.STEPS, draw_control.STEPS, draw_indices.STEPS, draw_recurrent.STEPS,
    draw_signals.STEPS, draw_composed.STEPS, draw_microsoft.STEPS, draw_sizes.STEPS,
)  # fmt: skip


class Drawn:
    """Models of one to six operators."""

    batch = 64

    def __init__(self) -> None:
        prepare()

    def make(self, generator: random.Random) -> bytes:
        return draw(generator)

    def files(self, case: bytes) -> dict[str, bytes]:
        return {"model.onnx": case}

    def compare(self, case: bytes, note: Note) -> bool:
        return compare(case, note)

    def judge(self, case: bytes, note: Note) -> bool:
        try:
            return self.compare(case, note)
        except ModelError as error:
            if any(reason in str(error) for reason in _KNOWN):
                raise
            note("reference")
            if runs_elsewhere(case):
                raise Wrong(f"a valid model is refused: {error}") from error
            raise


def draw(generator: random.Random) -> bytes:
    """A valid model; the same for equal states of the generator."""
    while True:
        wanted = generator.choice((1, 1, 2, 2, 3, 4, 6))
        family = generator.choice(FAMILIES)
        new = family is draw_composed.STEPS and generator.random() < 0.9
        draft = Draft(generator, generator.choice(_NEW_OPSETS if new else _OPSETS))
        for _ in range(3 * wanted):
            if draft.steps == wanted:
                break
            steps = family if generator.random() < 0.6 else generator.choice(FAMILIES)
            draft.attempt(generator.choice(steps))
        if draft.steps:
            model = draft.model()
            if generator.random() < 0.1:
                move_into_functions(model, generator)
            data: bytes = model.SerializeToString()
            return data
