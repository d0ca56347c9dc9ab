"""Where in the pipeline the passes of an instruction family go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any


class Stage(Enum):
    """A place among the general passes, by what the code looks like there."""

    FLAT = "loops are not vectorized; buffers have one dimension"
    MULTIPLIES = "loops are unrolled, indices simplified; multiplications become instructions"
    STORES = "stores that follow each other are one vector; results become narrower"
    LOADS = "operands of multiplications are loaded as the instructions want them"
    SCALABLE = "buffers are on the stack; loops over pixels become scalable vectors"
    LAST = "nothing looks for sums, maxima or indices any more"


# the passes of a family for one machine, in order
Passes = Mapping[Stage, Sequence[Any]]
