"""Expressions and tensors of them (``tvm.ir``, ``tvm.te``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias


class Expr(Protocol):
    """A scalar or vector expression of the loop IR, such as an index (``tvm.ir.Expr``)."""

    @property
    def ty(self) -> Any:
        """Its type, with ``dtype``."""

    def astype(self, dtype: str) -> Expr:
        """The value in another type."""

    def same_as(self, other: object) -> bool:
        """Whether both are one node."""

    def __add__(self, other: Scalar) -> Expr: ...
    def __radd__(self, other: Scalar) -> Expr: ...
    def __sub__(self, other: Scalar) -> Expr: ...
    def __rsub__(self, other: Scalar) -> Expr: ...
    def __mul__(self, other: Scalar) -> Expr: ...
    def __rmul__(self, other: Scalar) -> Expr: ...
    def __truediv__(self, other: Scalar) -> Expr: ...
    def __rtruediv__(self, other: Scalar) -> Expr: ...
    def __floordiv__(self, other: Scalar) -> Expr: ...
    def __mod__(self, other: Scalar) -> Expr: ...
    def __neg__(self) -> Expr: ...
    def __lt__(self, other: Scalar) -> Expr: ...
    def __le__(self, other: Scalar) -> Expr: ...
    def __gt__(self, other: Scalar) -> Expr: ...
    def __ge__(self, other: Scalar) -> Expr: ...

    # an expression, whose truth value says whether both are one node
    def __eq__(self, other: object) -> Any: ...
    def __hash__(self) -> int: ...


Scalar: TypeAlias = Expr | int | float
Index: TypeAlias = Expr | int


class Tensor(Protocol):
    """A tensor of a tensor expression (``tvm.te.Tensor``)."""

    @property
    def shape(self) -> Sequence[Any]:
        """Sizes: ``IntImm``, or expressions where a size is symbolic."""

    @property
    def dtype(self) -> str:
        """Type of the elements."""

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Expr: ...

    def __call__(self, *index: Index) -> Expr:
        """As an index in brackets."""
