"""Fatbins: taken apart, joined, and left to a driver to translate."""

from __future__ import annotations

import pytest

from tvmconv.core.fatbin import (
    MACHINE_CODE,
    PTX,
    fatbin_of,
    lowered,
    new_part,
    parts_of,
    ptx_version,
    translatable,
)

ELF = b"\x7fELF\x02\x01\x01A\x08" + bytes(55)


def _ptx(version: str) -> bytes:
    return f"// by a compiler\n\n.version {version}\n.target sm_90\n".encode() + b"\0"


def test_parts_are_what_was_joined():
    parts = [new_part(MACHINE_CODE, 80, ELF), new_part(PTX, 90, _ptx("7.8"))]
    found = parts_of(fatbin_of(parts))
    assert found == parts
    assert [part.version for part in found] == [(1, 8), (7, 8)]
    assert all(len(part.content) % 8 == 0 for part in found)


def test_what_is_no_fatbin_is_refused():
    whole = fatbin_of([new_part(PTX, 90, _ptx("7.8"))])
    # a part of no bytes, and one that is longer than the file
    sizes = [whole[:20] + size.to_bytes(12, "little") + whole[32:] for size in (0, 1 << 40)]
    for damaged in (b"", b"\x7fELF" + bytes(60), whole[:40], whole[:-8], *sizes):
        with pytest.raises(ValueError, match="fatbin"):
            parts_of(damaged)
        assert translatable(damaged) is None


def test_what_a_driver_can_translate_is_left_alone():
    code, ptx = new_part(MACHINE_CODE, 90, ELF), new_part(PTX, 90, _ptx("7.8"))
    assert translatable(fatbin_of([code, ptx])) == fatbin_of([ptx])
    assert translatable(fatbin_of([code])) is None
    assert translatable(fatbin_of([ptx])) is None


@pytest.mark.parametrize(
    ("architecture", "version", "expected"),
    [(90, "9.0", (7, 8)), (80, "8.8", (7, 0)), (90, "7.8", (7, 8)), (100, "9.0", (9, 0))],
)
def test_ptx_is_of_the_first_version_with_its_target(architecture, version, expected):
    found = lowered(_ptx(version), architecture)
    assert ptx_version(found) == expected
    assert found.splitlines()[3:] == _ptx(version).splitlines()[3:]


def test_a_part_can_hold_anything_else():
    part = new_part(0x7A00, 0, b"1234")
    assert parts_of(fatbin_of([part])) == [part]
