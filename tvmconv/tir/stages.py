"""The stages of the pipeline at which instruction families add passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any


class Stage(Enum):
    """A place among the general passes, described by the form of the code there."""

    FLAT = "loops are not vectorized; buffers have one dimension"
    MULTIPLIES = "loops are unrolled, indices simplified; multiplications become instructions"
    STORES = "consecutive stores are one vector; results are narrowed"
    LOADS = "operands of multiplications are loaded in the form that instructions need"
    SCALABLE = "buffers are on the stack; loops over spatial positions become scalable vectors"
    LAST = "no later pass matches sums, maxima or indices"


# the passes of a family for one machine, in order
Passes = Mapping[Stage, Sequence[Any]]
