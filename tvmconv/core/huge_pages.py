"""Large files that the system caches, and can map, in huge pages."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterable, Iterator

from . import files

# bytes of one write, and of one request to cache; a multiple of usual huge pages
BLOCK_BYTES = 8 << 20

_CHUNK_BYTES = 1 << 20
_POPULATE_READ = 22  # MADV_POPULATE_READ, since Linux 5.14


def read_chunks(descriptor: int, size: int) -> Iterator[bytes]:
    """The first ``size`` bytes of a file; fewer where it is truncated meanwhile.

    The first reader of a file determines the pages in which Linux caches it. A plain read causes
    small pages, a mapping with huge pages causes huge ones; see :func:`write_blocks`.
    """
    with contextlib.ExitStack() as stack:
        mapping = None
        # address space may be short, the kernel old: then the cache is as it comes
        with contextlib.suppress(OSError, ValueError, OverflowError, AttributeError):
            mapping = stack.enter_context(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ))
            mapping.madvise(mmap.MADV_HUGEPAGE)
        for offset in range(0, size, _CHUNK_BYTES):
            if mapping is not None and offset % BLOCK_BYTES == 0:
                with contextlib.suppress(OSError):
                    mapping.madvise(_POPULATE_READ, offset, min(BLOCK_BYTES, size - offset))
            chunk = os.pread(descriptor, min(_CHUNK_BYTES, size - offset), offset)
            yield chunk
            if len(chunk) < min(_CHUNK_BYTES, size - offset):
                return


def write_blocks(descriptor: int, pieces: Iterable[bytes | memoryview]) -> None:
    """Write consecutive pieces of any sizes, a large block at a time.

    Linux caches a file in pages as large as one call's data. Only whole huge pages can be mapped
    as such, without a fault and a table entry for every 4 KB.
    """
    block = bytearray(BLOCK_BYTES)
    filled = 0
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            taken = rest[: BLOCK_BYTES - filled]
            block[filled : filled + len(taken)] = taken
            filled += len(taken)
            rest = rest[len(taken) :]
            if filled == BLOCK_BYTES:
                files.write_all(descriptor, block)
                filled = 0
    files.write_all(descriptor, memoryview(block)[:filled])
