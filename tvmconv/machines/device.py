"""What a target is to the parts that work for any kind of it.

A record says of itself which kind of device it is (``kind``), and those parts look up by that what
there is for it: algorithms (:mod:`tvmconv.kernels.registry`), schedules
(:mod:`tvmconv.kernels.families`), back ends (:mod:`tvmconv.compile.network`). None asks for a kind
by name.
"""

from __future__ import annotations

from typing import Any, Protocol


class Device(Protocol):
    """A processor or GPU: what records of every kind have.

    Attributes
    ----------
    kind
        Kind of device; also the folder under ``schedules/`` that its families share.
    name
        What users give as target; also the stem of its tuning log.
    family
        Folder under ``schedules/`` that goes before the shared one; need not exist.
    isa
        Instruction set of the kernels, in one word.
    triple
        LLVM's name of the system on which the program that calls the kernels runs.
    cores
        Threads of the caller's processor that one call uses.
    channel_block
        Channels of a block of the layout that activations have between layers, in float32; of 1
        it is plain: NCHW.
    runs_along_axes
        Whether one thread may well compute all values of an axis in turn, as sorting does.
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
        """The name with the processor or GPU that the record stands for, for sentences."""

    @property
    def rates_origin(self) -> str:
        """Where the figures that costs are counted from were taken."""

    @property
    def last_cache_bytes(self) -> int:
        """Size of the cache before memory."""

    def blocks(self, channels: int) -> int:
        """Channel blocks that hold ``channels`` values."""

    @property
    def record_facts(self) -> dict[str, Any]:
        """What tuning records call by other names than this record's fields."""

    def tvm_target(self) -> dict[str, Any]:
        """TVM's target of the kernels, in TVM 0.27's dictionary form."""

    def __hash__(self) -> int: ...

    def to_json(self) -> dict[str, Any]:
        """Plain data for manifests and reports."""
