"""Shared by the tests of the passes: tiny functions before and after."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from tvmconv.operators.products import registered
from tvmconv.tir.general.rewrite import transformed


def check(rewrite: Any, before: Any, expected: Any) -> None:
    """A pass makes one function of another; names of variables do not matter."""
    tvm.ir.assert_structural_equal(transformed(before, rewrite), expected)


def check_same(rewrite: Any, func: Any) -> None:
    """A pass leaves a function as it is."""
    check(rewrite, func, func)


def fetch(load: Any, locality: int, *, write: bool = False) -> Any:
    """The prefetch of a value's cache line; locality 3 is L1, 2 is L2. For use in TVMScript."""
    address = tirx.address_of(load)
    return tirx.call_intrin("void", "tirx.prefetch", address, int(write), locality, 1)


def operator(dtype: str, name: str, *operands: Any) -> Any:
    """A call of one of this package's operators, without ``tvmconv.``. For use in TVMScript."""
    return tirx.call_intrin(dtype, registered(f"tvmconv.{name}"), *operands)


def updates(name: str, *operands: Any) -> Any:
    """The same of an operator that changes memory or registers."""
    return tirx.call_intrin("void", registered(f"tvmconv.{name}", updates=True), *operands)


def tile_product(sums: Any, pixels: Any, distance: int, weights: Any) -> Any:
    """The product of a tile of 14 pixels, so many bytes apart. For use in TVMScript."""
    at = tirx.address_of
    return updates("tile_product", 14, at(sums), 64, at(pixels), distance, at(weights), 64)


def llvm(dtype: str, name: str, *operands: Any) -> Any:
    """A call of one of LLVM's intrinsics, without ``llvm.``. For use in TVMScript."""
    return tirx.call_llvm_pure_intrin(dtype, f"llvm.{name}", *operands)


def lanes_added(total: Any, product: Any, name: str = "add") -> Any:
    """A predicated addition (or ``sub``) of vectors of int32. For use in TVMScript."""
    lanes = int(total.ty.dtype.lanes)
    everywhere = tirx.Broadcast(tirx.const(True, "bool"), lanes)
    count = tirx.const(lanes, "uint32")
    return llvm(f"int32x{lanes}", f"vp.{name}", total, product, everywhere, count)


def instruction(name: str, *operands: Any) -> Any:
    """A call of one of LLVM's intrinsics of x86 without a result. For use in TVMScript."""
    return tirx.call_llvm_intrin("void", f"llvm.x86.{name}", *operands)


def barrier() -> Any:
    """The barrier of a block's threads. For use in TVMScript."""
    return tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared")


def mma(sums: Any, weights: Any, columns: Any) -> Any:
    """A product of fragments in TF32. For use in TVMScript."""
    kinds = ("m16n8k8", "row", "col", "tf32", "tf32", "fp32")
    places = (part for each in (weights, columns, sums) for part in (each.data, 0))
    return tirx.call_intrin("float32", "tirx.ptx_legacy.mma", *kinds, *places, False)


def pointer(name: str, *operands: Any) -> Any:
    """A pointer that a function returns. For use in TVMScript."""
    return tirx.call_pure_extern("handle", name, *operands)
