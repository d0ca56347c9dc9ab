"""Code, memory and targets (``tvm.runtime``, ``tvm.target``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt


class Module(Protocol):
    """Machine code of functions, or a library of it (``tvm.runtime.Module``)."""

    def __getitem__(self, name: str) -> Callable[..., Any]: ...

    def inspect_source(self, fmt: str = "") -> str:
        """The code as text: ``s`` for assembly, ``ll`` for LLVM's own form."""

    def write_to_file(self, file_name: str, fmt: str) -> object:
        """Write the code alone: ``o`` for an object file."""

    def export_library(
        self, file_name: str, *, fcompile: Callable[[str, Sequence[str]], object]
    ) -> object:
        """Write a shared object, which ``fcompile`` makes of object files."""

    def time_evaluator(
        self, func_name: str, dev: object, number: int = 10, repeat: int = 1, f_preproc: str = ""
    ) -> Callable[..., Any]:
        """A function that times calls of another where it runs."""


class DeviceTensor(Protocol):
    """An array in a device's memory (``tvm.runtime.Tensor``)."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes."""

    def numpy(self) -> npt.NDArray[Any]:
        """A copy on the host."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...


class Target(Protocol):
    """A target of TVM (``tvm.target.Target``)."""

    @property
    def kind(self) -> Any:
        """Kind of device, such as ``llvm``."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Options."""
