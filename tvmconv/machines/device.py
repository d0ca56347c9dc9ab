"""The interface of a target for code that works with any kind of device.

A machine model names its kind of device (``kind``). Such code looks up by kind: algorithms
(:mod:`tvmconv.kernels.registry`), schedules (:mod:`tvmconv.kernels.families`) and back ends
(:mod:`tvmconv.compile.network`). No such code compares kinds by name.
"""

from __future__ import annotations

from typing import Any, Protocol


class Device(Protocol):
    """A CPU or GPU: attributes of machine models of every kind.

    Attributes
    ----------
    kind
        Kind of device; also the folder under ``schedules/`` that its families share.
    name
        The target's name; also the stem of its tuning log.
    family
        Folder under ``schedules/`` that precedes the shared one; need not exist.
    isa
        Instruction set of the kernels, as one identifier.
    triple
        LLVM's triple of the system that runs the program around the kernels.
    cores
        CPU threads that one call uses.
    channel_block
        Channels of a block of the layout between layers, in FP32. 1 is the plain layout, NCHW.
    runs_along_axes
        Whether one thread computes all values of an axis efficiently, as in sorting.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def family(self) -> str: ...  # noqa: D102

    @property
    def isa(self) -> str: ...  # noqa: D102

    @property
    def triple(self) -> str: ...  # noqa: D102

    @property
    def cores(self) -> int: ...  # noqa: D102

    @property
    def channel_block(self) -> int: ...  # noqa: D102

    @property
    def runs_along_axes(self) -> bool: ...  # noqa: D102

    @property
    def described(self) -> str:
        """The name with the CPU or GPU of the model, for messages."""

    @property
    def rates_origin(self) -> str:
        """The origin of the figures on which costs are based."""

    @property
    def last_cache_bytes(self) -> int:
        """Size of the cache before memory."""

    def blocks(self, channels: int) -> int:
        """Channel blocks that hold ``channels`` values."""

    @property
    def record_facts(self) -> dict[str, Any]:
        """Fields that tuning records name differently than this machine model."""

    def tvm_target(self) -> dict[str, Any]:
        """TVM's target of the kernels, in TVM 0.27's dictionary form."""

    def __hash__(self) -> int: ...

    def to_json(self) -> dict[str, Any]:
        """Plain data for manifests and reports."""
