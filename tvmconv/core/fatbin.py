"""Fatbins: NVIDIA's files that hold code of one source for several GPUs.

A fatbin begins with a head: magic number, version, bytes of the head, bytes of the parts. Each part
has its own head. A part is machine code of one architecture, or PTX, which a driver translates for
later architectures. The format is not documented; tests compare heads with NVIDIA's ``fatbinary``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

PTX, MACHINE_CODE = 1, 2
_HEAD = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
# Kind, version of the head, bytes of the head, bytes of the code, compressed bytes, offset of the
# options. Version of the code (minor, major), architecture, offset and bytes of the name. Flags,
# an unused field, bytes before compression.
_PART = struct.Struct("<HHIQIIHHIIIQQQ")
_PART_VERSION, _FLAGS = 0x101, 0x11
# offset and bytes of the options with which PTX was made; here there are none
_OPTIONS = struct.Struct("<IIQ")
# offset of the ABI version in an ELF file
_ABI_VERSION = 8
_PADDED = 8
_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)", re.MULTILINE)
# the first version of PTX with each target, by its release history; kernels need no later one
_LEAST = {80: (7, 0), 86: (7, 1), 87: (7, 4), 89: (7, 8), 90: (7, 8)}


@dataclass(frozen=True)
class Part:
    """Code for one architecture.

    ``kind`` is :data:`PTX`, :data:`MACHINE_CODE`, or what others may define. ``version`` is major
    and minor version of the PTX language; for machine code, 1 and the ELF ABI version.
    ``architecture`` is 90 of ``sm_90``. ``content`` has the bytes in a fatbin, the part's head
    included.
    """

    kind: int
    version: tuple[int, int]
    architecture: int
    content: bytes


def parts_of(fatbin: bytes) -> list[Part]:
    """The parts of a fatbin.

    Raises ``ValueError`` if it is none.
    """
    if len(fatbin) < _HEAD.size or not fatbin.startswith(_MAGIC.to_bytes(4, "little")):
        raise ValueError("it does not begin as a fatbin")
    _, _, place, size = _HEAD.unpack_from(fatbin)
    end, found = place + size, list[Part]()
    while place < end:
        if end > len(fatbin) or place + _PART.size > end:
            raise ValueError("the fatbin ends within a part")
        kind, _, head, rest, _, _, minor, major, architecture, *_ = _PART.unpack_from(fatbin, place)
        if head < _PART.size or place + head + rest > end:
            raise ValueError("a part of the fatbin has an invalid size")
        content = fatbin[place : place + head + rest]
        found.append(Part(kind, (major, minor), architecture, content))
        place += head + rest
    return found


def fatbin_of(parts: Iterable[Part]) -> bytes:
    """Inverse of :func:`parts_of`."""
    content = b"".join(part.content for part in parts)
    return _HEAD.pack(_MAGIC, 1, _HEAD.size, len(content)) + content


def new_part(kind: int, architecture: int, code: bytes) -> Part:
    """A part that is not compressed.

    ``code`` is PTX, which ends with a zero byte, or machine code as an ELF file.
    """
    version, options = (0, 0), b""
    if kind == PTX:
        version, options = ptx_version(code), _OPTIONS.pack(_PART.size + 8, 0, 0)
    elif kind == MACHINE_CODE:
        version = 1, code[_ABI_VERSION]
    code += bytes(-len(code) % _PADDED)
    place, (major, minor) = _PART.size * bool(options), version
    sizes = _PART_VERSION, _PART.size + len(options), len(code)
    head = _PART.pack(kind, *sizes, 0, place, minor, major, architecture, 0, 0, _FLAGS, 0, 0)
    return Part(kind, version, architecture, head + options + code)


def translatable(fatbin: bytes) -> bytes | None:
    """A fatbin without its machine code, whose form an older driver may not know.

    None if it is not a fatbin, has no PTX, or has no machine code.
    """
    try:
        parts = parts_of(fatbin)
    except ValueError:
        return None
    kept = [part for part in parts if part.kind != MACHINE_CODE]
    if len(kept) == len(parts) or not any(part.kind == PTX for part in kept):
        return None
    return fatbin_of(kept)


def ptx_version(ptx: bytes) -> tuple[int, int]:
    """The version of PTX that a text is in; (0, 0) where it does not say."""
    found = _VERSION.search(ptx)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def lowered(ptx: bytes, architecture: int) -> bytes:
    """PTX of the first version that knows its architecture, for drivers older than the compiler.

    Compilers write their own version, even if the code needs less. Only an assembler can tell
    whether the code needs more than the result says.
    """
    least = _LEAST.get(architecture, (0, 0))
    if not (0, 0) < least < ptx_version(ptx):
        return ptx
    return _VERSION.sub(b".version %d.%d" % least, ptx, count=1)
