"""Tasks, and vectors over contiguous elements, for functions written as loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T

# attribute of a function whose loops GPUs do not run
LOOPS = "tvmconv.loops"
# Elements that a thread takes at once.
_TASK_ELEMENTS = 1 << 14


def tasks(units: int, work: int, allocate: Callable[[], None], write: Callable[[Any], None]) -> Any:
    """A function's loops over units of ``work`` elements, several of which a thread may take.

    ``allocate`` makes a thread's buffers, and ``write`` the loops of one unit.
    """
    chunk = max(1, min(_TASK_ELEMENTS // work, units))
    count = -(-units // chunk)
    with IRBuilder() as builder:
        with shared(count) as task:
            allocate()
            with T.serial(0, tirx.min(chunk, units - task * chunk)) as number:
                write(task * chunk + number)
        return builder.get()


def shared(count: int) -> Any:
    """A loop whose steps threads share, if there are several."""
    return (T.parallel if count > 1 else T.serial)(0, count)


def pieces(
    size: int, lanes: int, store: Callable[[Any, int], None], *, overlap: bool = True
) -> None:
    """Write vectors that cover ``size`` elements; ``store`` takes the first one and the width.

    The last vector may overlap the one before it. Without ``overlap``, smaller vectors cover the
    rest, for stores that must not happen twice.
    """
    width = lanes
    while width > size:
        width //= 2
    whole, rest = divmod(size, width)
    if whole > 1:
        with T.serial(0, whole) as vector:
            store(vector * width, width)
    else:
        store(0, width)
    if rest and overlap:
        store(size - width, width)
        return
    done = whole * width
    while rest:
        width = 1 << (rest.bit_length() - 1)
        store(done, width)
        done, rest = done + width, rest - width


def blocks(size: int, length: int, write: Callable[[Any, int], None]) -> None:
    """Write loops over blocks of ``size`` elements; ``write`` takes the first one and the count.

    The last block may be shorter: its loops are written by themselves, with their own bounds.
    """
    whole, rest = divmod(size, length)
    if whole:
        with T.serial(0, whole) as number:
            write(number * length, length)
    if rest:
        write(whole * length, rest)


@contextmanager
def one_task() -> Iterator[None]:
    """The frame that buffers of a function without other loops around them need."""
    with T.serial(0, 1):
        yield


@contextmanager
def grid(extents: Sequence[int]) -> Iterator[list[Any]]:
    """Nested loops, any number of them; gives their variables."""
    if not extents:
        yield []
        return
    with T.grid(*extents) as found:
        yield [found] if len(extents) == 1 else list(found)


def place_of(flat: Any, shape: Sequence[int]) -> list[Any]:
    """The index along each axis, of an element that is counted over all of them."""
    indices: list[Any] = []
    for size in reversed(shape[1:]):
        indices.append(flat % size)
        flat = flat // size
    return [flat, *reversed(indices)] if shape else []


def ramp(start: Any, width: int, stride: int = 1) -> Any:
    """Indices of ``width`` neighbors, or of elements that are ``stride`` apart."""
    if width == 1:
        return start
    first = tirx.const(start, "int32") if isinstance(start, int) else start
    return tirx.Ramp(first, stride, width)


def spread(value: Any, width: int) -> Any:
    """One value in all lanes."""
    return tirx.Broadcast(value, width) if width > 1 else value


def vector_type(dtype: str, width: int) -> str:
    """The type of ``width`` elements."""
    return f"{dtype}x{width}" if width > 1 else dtype


def scratch(size: int, dtype: str) -> Any:
    """A buffer of the loop around, by flat index."""
    return T.buffer_proxy(T.decl_buffer([size], dtype, scope="global"))
