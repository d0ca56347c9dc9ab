"""Functions that a loaded library takes from other libraries, and how to give it others.

A shared library calls a foreign function through a slot of its own, which the dynamic linker
fills (System V ABI, "Dynamic Linking"; ELF of 64 bits with glibc).
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_char_p, c_int64, c_uint8, c_uint32, c_uint64
from pathlib import Path
from typing import Any

_STRTAB, _SYMTAB, _PLTRELSZ, _JMPREL = 5, 6, 2, 23
_RTLD_DI_LINKMAP = 2
_PROT_READ, _PROT_WRITE = 1, 2


class _Dynamic(Structure):
    _fields_ = (("tag", c_int64), ("value", c_uint64))


class _LinkMap(Structure):
    """The dynamic linker's record of one library (``link.h``)."""


_LinkMap._fields_ = (
    ("base", c_uint64),
    ("name", c_char_p),
    ("dynamic", POINTER(_Dynamic)),
    ("next", POINTER(_LinkMap)),
)


class _Relocation(Structure):
    _fields_ = (("offset", c_uint64), ("type", c_uint32), ("symbol", c_uint32), ("addend", c_int64))


class _Symbol(Structure):
    _fields_ = (
        ("name", c_uint32),
        ("info", c_uint8),
        ("other", c_uint8),
        ("section", ctypes.c_uint16),
        ("value", c_uint64),
        ("size", c_uint64),
    )


def redirect(library: str, function: str, replacement: Any) -> bool:
    """Let a library call another function in place of one that it imports.

    Parameters
    ----------
    library
        File name of a library that this process has loaded.
    function
        The imported function's name.
    replacement
        A function of a library that ``ctypes`` has loaded, which is never unloaded.

    Returns
    -------
    bool
        False if the library is not loaded or imports no such function.
    """
    address = ctypes.cast(replacement, ctypes.c_void_p).value
    slots = [
        slot
        for entry in _loaded()
        if Path((entry.name or b"").decode(errors="replace")).name == library
        for slot in _slots(entry, function.encode())
    ]
    for slot in slots:
        _write(slot, address)
    return bool(slots)


def _loaded() -> Iterator[Any]:
    """The records of all libraries; none where the linker is another."""
    program = ctypes.CDLL(None)
    if sys.maxsize < 2**32 or not hasattr(program, "dlinfo"):
        return
    entry = POINTER(_LinkMap)()
    if program.dlinfo(ctypes.c_void_p(program._handle), _RTLD_DI_LINKMAP, byref(entry)):
        return
    while entry:
        yield entry.contents
        entry = entry.contents.next


def _slots(entry: Any, function: bytes) -> Iterator[int]:
    """Where pointers to an imported function stand."""
    values: dict[int, int] = {}
    index = 0
    while (item := entry.dynamic[index]).tag:
        values[item.tag] = item.value
        index += 1
    if not values.keys() >= {_STRTAB, _SYMTAB, _PLTRELSZ, _JMPREL}:
        return
    # glibc has made addresses of offsets, where it may write to the table
    places = {
        tag: value if value >= entry.base else value + entry.base for tag, value in values.items()
    }
    count = values[_PLTRELSZ] // ctypes.sizeof(_Relocation)
    for relocation in (_Relocation * count).from_address(places[_JMPREL]):
        place = places[_SYMTAB] + relocation.symbol * ctypes.sizeof(_Symbol)
        symbol = _Symbol.from_address(place)
        if ctypes.string_at(places[_STRTAB] + symbol.name) == function:
            yield entry.base + relocation.offset


def _write(slot: int, address: int | None) -> None:
    page = slot & -mmap.PAGESIZE
    sealed = not _writable(slot)
    if sealed:
        _protect(page, _PROT_READ | _PROT_WRITE)
    ctypes.c_void_p.from_address(slot).value = address
    if sealed:
        _protect(page, _PROT_READ)


def _writable(address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        start, end = (int(word, 16) for word in span.split("-"))
        if start <= address < end:
            return "w" in rights
    return False


def _protect(page: int, rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), rights):
        raise OSError(ctypes.get_errno(), "mprotect")
