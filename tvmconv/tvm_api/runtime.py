"""Arrays, devices and connections of TVM's runtime (``tvm.runtime``, ``tvm.rpc``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import cpu, rpc

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from tvmconv.tvm_api.types import DeviceTensor, Module

    def tensor(arr: npt.NDArray[Any], device: object = ...) -> DeviceTensor:
        """A copy of an array on a device, by default this host's processor."""

    def empty(shape: tuple[int, ...], dtype: str, device: object = ...) -> DeviceTensor:
        """Memory of a device, by default this host's processor, not set."""

    def load_static_library(path: str, func_names: list[str]) -> Module:
        """An object file as a module, which ``export_library`` links."""
else:
    from tvm.runtime import empty, load_static_library, tensor
