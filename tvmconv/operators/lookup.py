"""Functions of 8-bit integers as lookup tables of 256 values."""

from __future__ import annotations

from tvmconv.operators.products import registered
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor

# followed by the type of the values
FOUND = "tvmconv.found_"
# name of the block, whose vectors are as long as vectors of bytes
LOOKUP = "tvmconv.lookup"
ENTRIES = 256


def lookup(data: Tensor, table: Tensor) -> Tensor:
    """The table's values at the bits of INT8 data, which are read as unsigned numbers."""

    def element(*index: Expr) -> Expr:
        value = data[index]
        bits = value if str(data.dtype) == "uint8" else tirx.reinterpret("uint8", value)
        dtype = str(table.dtype)
        return tirx.call_intrin(dtype, registered(f"{FOUND}{dtype}"), table[0], bits)

    return te.compute(data.shape, element, name="looked_up", attrs={LOOKUP: 1})
