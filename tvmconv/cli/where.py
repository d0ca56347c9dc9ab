"""Where a model runs: options of the subcommands that call models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmconv.cli import options
from tvmconv.cli.choices import DEFAULT, Choices, with_choices
from tvmconv.cli.command import with_group

if TYPE_CHECKING:
    from tvmconv.runtime.gpu_options import GpuOptions


@dataclass(frozen=True)
class Where:
    """A build and its target, or one of the GPUs here, or a device of TVM's RPC.

    ``shapes`` are options of a build for an ONNX model, and select a program of a saved one.
    """

    target: str = "native"
    threads: int | None = None
    shapes: list[str] | None = None
    choices: Choices = DEFAULT
    verify: bool = True
    device: int = 0
    cuda_graph: bool | None = None
    rpc: str = ""
    tracker: str = ""
    key: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether an option of RPC is given."""
        return bool(self.rpc or self.tracker or self.key)

    @property
    def gpu(self) -> GpuOptions:
        """The options of a GPU."""
        from tvmconv.runtime.gpu_options import GpuOptions

        return GpuOptions.of(self.device, self.cuda_graph)


HERE = Where()


def parse_where(
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shape = None,
    choices: Choices = DEFAULT,
    verify: options.Verify = True,
    device: options.GpuIndex = 0,
    cuda_graph: options.CudaGraph = None,
    rpc: options.Rpc = "",
    rpc_tracker: options.RpcTracker = "",
    rpc_key: options.RpcKey = "",
) -> Where:
    """The options; its parameters are options."""
    return Where(
        target, threads, shape, choices, verify, device, cuda_graph, rpc, rpc_tracker, rpc_key
    )


def with_where(subcommand: Callable[..., None]) -> Callable[..., None]:
    """A subcommand with the options of :func:`parse_where` in place of its ``where``."""
    return with_choices(with_group(subcommand, "where", parse_where))
