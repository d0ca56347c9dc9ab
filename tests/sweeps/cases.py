"""The cases of every operator: the list of the modules that draw them."""

from __future__ import annotations

from tests.sweeps import elements, forms, layers, moves, operators, signals, windows
from tests.sweeps.draws import LARGEST, Case, Draw, Draws

DRAWS: Draws = {
    **operators.DRAWS,
    **windows.DRAWS,
    **elements.DRAWS,
    **moves.DRAWS,
    **layers.DRAWS,
    **forms.DRAWS,
    **signals.DRAWS,
}


def case_of(seed: int, operator: str, index: int, largest: int = LARGEST) -> Case:
    """The case with this number."""
    return DRAWS[operator](Draw(seed, operator, index, largest))
