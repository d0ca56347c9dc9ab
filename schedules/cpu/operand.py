"""Matrix products as TVM writes them: their operands, and the columns in panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks, inline_injective, inspect
from tvmconv.tir.general.axes import calls, loads
from tvmconv.tir.general.rewrite import item_bytes, variables
from tvmconv.tvm_api.types import BlockRV, Expr, IndexMap, PrimFunc, Schedule

# MACs below which copying into panels costs more than it saves
_SMALLEST = 4096


@dataclass(frozen=True)
class ColumnsOperand:
    """The operand that holds the columns, and its axes of columns and of inner steps."""

    index: int
    axes: int
    column_axis: int
    inner_axis: int
    index_dtype: str

    def panels(self, width: int) -> IndexMap:
        """Index map to ``(.., n / width, k, n % width)``."""

        def position(*index: Expr) -> tuple[Expr, ...]:
            n, k = index[self.column_axis], index[self.inner_axis]
            matrix = (self.column_axis, self.inner_axis)
            outer = (item for axis, item in enumerate(index) if axis not in matrix)
            return (*outer, n // width, k, n % width)

        return _index_map(position, self.axes, self.index_dtype)


def _index_map(position: Callable[..., tuple[Expr, ...]], axes: int, dtype: str) -> IndexMap:
    """A map of a buffer's indices."""
    from tvmconv.tvm_api import tirx

    return tirx.IndexMap.from_func(position, ndim=axes, index_dtype=dtype)


def plain_product(func: PrimFunc) -> tuple[Schedule, Block, ColumnsOperand] | None:
    """The product of a function, and the operand with its columns; None for other functions."""
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    inline_injective(schedule)
    found = blocks(schedule)
    products = [block for block in found if block.is_reduction]
    if len(products) != 1 or not all(all(block.extents) for block in found):
        return None
    operand = _columns_operand(schedule, products[0])
    if operand is None or products[0].work < _SMALLEST:
        return None
    return schedule, products[0], operand


def sum_lanes(schedule: Schedule, product: Block, machine: Machine) -> int:
    """Sums of a product that one vector holds: fewer of 64 bits than of 32."""
    item = item_bytes(str(schedule.get(product.rv).writes[0].source.dtype))
    return min(machine.lanes, machine.vector_bytes // item)


def pack_columns(
    schedule: Schedule, product: Block, operand: ColumnsOperand, tile: Sequence[int]
) -> BlockRV:
    """Copy columns into panels; returns the block that writes ``(.., n / columns, k, columns)``.

    ``schedule``, ``product`` and ``operand`` are the result of :func:`plain_product`. The matrices
    are padded to multiples of ``tile``: rows, columns of a panel, and inner steps.
    """
    batch = len(product.loops) - 3
    schedule.pad_einsum(product.rv, [1] * batch + list(tile))
    packed = schedule.cache_read(product.rv, operand.index, "global")
    panels = operand.panels(tile[1])
    schedule.transform_layout(product.rv, ("read", operand.index), panels)
    schedule.transform_block_layout(packed, panels)
    for producer in schedule.get_producers(packed):
        schedule.compute_inline(producer)
    return packed


def result_store(
    schedule: Schedule, product: Block, operand: ColumnsOperand, lanes: int, *, joins: bool = False
) -> BlockRV:
    """Hold sums as vectors of ``lanes`` values; returns the block that writes the result.

    If it ``joins``, the cheap element-wise function after a product reads sums from registers.
    """
    if joins and (reader := _cheap_reader(schedule, product)) is not None:
        _split_lanes(schedule, product, operand, lanes)
        return reader
    store = schedule.cache_write(product.rv, 0, "global")
    schedule.transform_block_layout(store, _split_lanes(schedule, product, operand, lanes))
    return store


def _split_lanes(
    schedule: Schedule, product: Block, operand: ColumnsOperand, lanes: int
) -> IndexMap:
    """Give the product's result an axis of lanes."""
    vectors = _index_map(
        lambda *index: (*index[:-1], index[-1] // lanes, index[-1] % lanes),
        len(product.loops) - 1,
        operand.index_dtype,
    )
    schedule.transform_layout(product.rv, ("write", 0), vectors)
    return vectors


def _cheap_reader(schedule: Schedule, product: Block) -> BlockRV | None:
    """The only reader of a product, if it walks the columns last and computes next to nothing."""
    from tvmconv.tvm_api.s_tir import is_output_block

    if is_output_block(schedule, product.rv):
        return None
    readers = list(schedule.get_consumers(product.rv))
    if len(readers) == 1 and not is_output_block(schedule, readers[0]):
        schedule.compute_inline(readers[0])
        readers = list(schedule.get_consumers(product.rv))
    if len(readers) != 1:
        return None
    reader = inspect(schedule, readers[0])
    statement = schedule.get(reader.rv)
    axes = [axis.var for axis in statement.iter_vars]
    written = schedule.get(product.rv).writes[0].source
    read = [region for region in statement.reads if region.source.same_as(written)]
    if (
        not reader.is_spatial
        or len(read) != 1
        or sorted(reader.extents) != sorted(product.extents[:-1])
    ):
        return None
    last = read[0].region[-1].min
    return reader.rv if last.same_as(axes[-1]) and not calls(statement.body) else None


def _columns_operand(schedule: Schedule, block: Block) -> ColumnsOperand | None:
    """B of a plain matrix product; None for any other reduction."""
    if len(block.kinds) < 3 or block.kinds != "S" * (len(block.kinds) - 1) + "R":
        return None
    statement = schedule.get(block.rv)
    *_, m, n, k = (axis.var for axis in statement.iter_vars)
    if len(statement.reads) != 2 or len(loads(statement.body)) != 3:
        return None
    indices = [[part.min for part in region.region] for region in statement.reads]
    uses = [set().union(*(variables(part) for part in parts)) for parts in indices]
    if not all(k in used for used in uses):
        return None
    columns = [i for i, used in enumerate(uses) if n in used and m not in used]
    if len(columns) != 1 or n in uses[1 - columns[0]]:
        return None
    index = columns[0]
    axes = indices[index]
    column = [i for i, part in enumerate(axes) if part.same_as(n)]
    inner = [i for i, part in enumerate(axes) if part.same_as(k)]
    if not column or not inner:
        return None
    return ColumnsOperand(index, len(axes), column[0], inner[0], str(n.ty.dtype))
