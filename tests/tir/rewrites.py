"""What the tests of the passes share: tiny functions before and after."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from tvmconv.tir.general.rewrite import transformed


def check(rewrite: Any, before: Any, expected: Any) -> None:
    """A pass makes one function of another, whatever their variables are called."""
    tvm.ir.assert_structural_equal(transformed(before, rewrite), expected)


def check_same(rewrite: Any, func: Any) -> None:
    """A pass leaves a function as it is."""
    check(rewrite, func, func)


def fetch(load: Any, locality: int, *, write: bool = False) -> Any:
    """The prefetch of a value's cache line; locality 3 is L1, 2 is L2. For use in TVMScript."""
    address = tirx.address_of(load)
    return tirx.call_intrin("void", "tirx.prefetch", address, int(write), locality, 1)
