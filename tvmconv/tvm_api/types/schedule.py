"""The primitives of a schedule, and what they work on (``tvm.s_tir``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, overload

from tvmconv.tvm_api.types.functions import For, IRModule, SBlock


class BlockRV:
    """A schedule's handle of a block (``tvm.s_tir.SBlockRV``)."""


class LoopRV:
    """A schedule's handle of a loop (``tvm.s_tir.LoopRV``)."""


class IndexMap:
    """An order of indices (``tvm.tirx.IndexMap``)."""


class Schedule(Protocol):
    """The primitives of ``tvm.s_tir.Schedule`` that schedules use."""

    @property
    def mod(self) -> IRModule:
        """The module in its present state; the function is ``main``."""

    @property
    def state(self) -> Any:
        """The state that tvmconv's own primitives change (``tvm.s_tir.ScheduleState``)."""

    def get_sref(self, rand_var_or_stmt: BlockRV | LoopRV) -> Any:
        """Where a block or loop is in that state."""

    @overload
    def get(self, rand_var_or_sref: LoopRV) -> For: ...
    @overload
    def get(self, rand_var_or_sref: BlockRV) -> SBlock: ...

    def get_sblock(self, name: str) -> BlockRV:
        """A block by name."""

    def get_loops(self, block: BlockRV) -> list[LoopRV]:
        """The loops around a block, outermost first."""

    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        """The blocks inside."""

    def get_producers(self, block: BlockRV) -> list[BlockRV]:
        """Blocks that write what this one reads."""

    def get_consumers(self, block: BlockRV) -> list[BlockRV]:
        """Blocks that read what this one writes."""

    def split(self, loop: LoopRV, factors: Sequence[int | None]) -> list[LoopRV]:
        """Cut a loop, outermost first; None stands for what is left."""

    def fuse(self, *loops: LoopRV) -> LoopRV:
        """One loop of several nested ones."""

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one nest in this order."""

    def parallel(self, loop: LoopRV) -> None:
        """Share iterations between threads."""

    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV) -> LoopRV:
        """A loop of one iteration around a block or a loop."""

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Give iterations to blocks or threads of a GPU: ``blockIdx.x``, ``threadIdx.x``."""

    def vectorize(self, loop: LoopRV) -> None:
        """Iterations become lanes."""

    def unroll(self, loop: LoopRV) -> None:
        """Write the iterations out."""

    def compute_at(self, block: BlockRV, loop: LoopRV, preserve_unit_loops: bool = False) -> None:
        """Move a producer under a loop of its consumer."""

    def decompose_padding(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        """Split a padded copy into a block of zeros, which is returned, and one of the copy."""

    def reverse_compute_at(
        self, block: BlockRV, loop: LoopRV, preserve_unit_loops: bool = False
    ) -> None:
        """Move a consumer under a loop of its producer."""

    def compute_inline(self, block: BlockRV | str) -> None:
        """Put a producer into its consumers."""

    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Put a consumer into its producer."""

    def decompose_reduction(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        """Put a reduction's initialization before a loop; returns its block."""

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Partial results for each iteration of a loop; returns their block."""

    def cache_read(self, block: BlockRV, read_buffer_index: int, storage_scope: str) -> BlockRV:
        """Copy an operand; returns the copying block."""

    def cache_write(self, block: BlockRV, write_buffer_index: int, storage_scope: str) -> BlockRV:
        """Write a result by way of a buffer; returns the storing block."""

    def set_scope(self, block: BlockRV, buffer_index: int, storage_scope: str) -> None:
        """Set the memory scope of a block's result."""

    def storage_align(
        self, block: BlockRV, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Round the stride of an axis of a result."""

    def transform_layout(
        self,
        block: BlockRV,
        buffer: tuple[str, int],
        index_map: IndexMap,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Store a buffer in another order of indices."""

    def copy(self) -> Schedule:
        """A schedule of the same function that changes by itself."""

    def reorder_block_iter_var(self, block: BlockRV, new_order: list[int]) -> None:
        """Give a block its axes in another order."""

    def transform_block_layout(self, block: BlockRV, index_map: IndexMap) -> None:
        """Give a block other axes."""

    def tensorize(self, block_or_loop: BlockRV | LoopRV, tensor_intrin: str) -> None:
        """Compute the loops from one on by a tensor intrinsic, by its name."""

    def pad_einsum(self, block: BlockRV, padding: list[int]) -> None:
        """Round the axes of a reduction up."""

    def annotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: object) -> None:
        """Attach a value for a later pass."""
