"""Users' files: read if regular and of a size that can be meant; destinations checked."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvmconv.artifact.manifest import is_manifest, read_manifest
from tvmconv.core import files, huge_pages
from tvmconv.core.errors import ArtifactError, InputError, TvmconvError
from tvmconv.frontend.source import open_source
from tvmconv.lab.bench.result import read_saved
from tvmconv.measuring import suites
from tvmconv.measuring.running import read_inputs
from tvmconv.records.logfile import read_log
from tvmconv.runtime.library import Library
from tvmconv.selection.overrides import read_overrides

READERS: dict[str, Callable[[Path], Any]] = {
    "manifest": read_manifest,
    "model": open_source,
    "overrides": read_overrides,
    "log": read_log,
    "suite": lambda path: suites.load(str(path)),
    "input": lambda path: read_inputs([f"x={path}"]),
    "saved bench": read_saved,
}


@pytest.fixture(params=["pipe", "zero", "terminal", "folder"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "odd"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "folder":
        path.mkdir()
    else:
        path.symlink_to({"zero": "/dev/zero", "terminal": "/dev/ptmx"}[request.param])
    return path


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_what_is_no_regular_file_is_refused(reader: Callable[[Path], Any], odd: Path) -> None:
    with pytest.raises(TvmconvError, match=r"odd'? is not a regular file"):
        reader(odd)


@pytest.mark.timeout(20)
def test_a_pipe_is_no_manifest(odd: Path) -> None:
    assert not is_manifest(odd)


def test_limits(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert files.read_regular(file, 5) == b"12345"
    with pytest.raises(InputError, match="has 5 bytes, and the limit is 4"):
        files.read_regular(file, 4, InputError)
    # the system says that it is empty
    with pytest.raises(ArtifactError, match="has more than 10 bytes"):
        files.read_regular("/proc/self/status", 10)
    with pytest.raises(OSError, match="null byte"):
        files.read_regular("a\0b", 10)


def test_a_file_replaced_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    left = tmp_path / ".log.0123456789ab"
    left.write_text("what a killed writer left")
    other = tmp_path / ".log.lock"
    other.write_text("")
    with files.replacing({path: 0o600}) as (descriptor,):
        files.write_all(descriptor, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    files.remove_abandoned(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".log.lock", "log"]


def test_pieces_are_written_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For huge pages: the sizes of the pieces are all odd."""
    block = huge_pages.BLOCK_BYTES
    assert block % (2 << 20) == 0
    numbers = np.random.default_rng(0).integers(0, 256, 2 * block + 12_345, np.uint8)
    ends = [0, 1, 64, 99_999, block + 7, block + 7, numbers.size]
    pieces = [numbers[first:last].data for first, last in itertools.pairwise(ends)]
    written: list[int] = []
    write = os.write

    def recorded(descriptor: int, data: memoryview) -> int:
        written.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", recorded)
    with files.replacing({tmp_path / "a": 0o666}) as (file,):
        huge_pages.write_blocks(file, pieces)
    assert written == [block, block, 12_345]
    assert (tmp_path / "a").read_bytes() == numbers.tobytes()

    written.clear()
    library = Library.open(tmp_path / "a")
    with files.replacing({tmp_path / "b": 0o666}) as (file,):
        library.write_to(file, b"{}")
    assert written[:2] == [block, block] and len(written) == 3
    assert (tmp_path / "b").read_bytes().startswith(numbers.tobytes())
    assert Library.open(tmp_path / "b").manifest == b"{}"


def test_nothing_is_left_of_a_failed_block(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), files.replacing({tmp_path / "a": 0o666}) as (file,):
        files.write_all(file, b"part")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_process_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with (
        files.folder_lock(tmp_path),
        pytest.raises(ArtifactError, match=r"has held the lock of .*End that process"),
        files.folder_lock(tmp_path, 0.05),
    ):
        pytest.fail("locked twice")


def test_destinations(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    files.check_destination(tmp_path / "old")
    files.check_destination(tmp_path / "new.so", ".so")
    files.check_destination(Path("/dev/null"))
    for path, message in (
        (tmp_path / "no" / "x", "does not exist; create it first"),
        (tmp_path / "old" / "x", "does not exist"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(ArtifactError, match=message):
            files.check_destination(path)


def test_what_is_replaced_needs_its_folder_and_what_is_written_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old.npz"
    old.write_text("")

    def check(writable: Path, replaced: bool) -> None:
        # root may write anything
        monkeypatch.setattr("os.access", lambda path, _mode: path == writable)
        files.check_destination(old, ".npz", replaced=replaced)

    check(old, False)
    check(tmp_path, True)
    with pytest.raises(ArtifactError, match=r"old.npz is not writable; name another file"):
        check(tmp_path, False)
    with pytest.raises(ArtifactError, match=r"the folder .* is not writable; name another one"):
        check(old, True)
