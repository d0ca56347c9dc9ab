"""Entries: an entry comes back as it was stored, or counts as missing; no error."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from tvmconv.cache import entries, folder
from tvmconv.cache.entries import KERNEL, MODEL, Entry, load, prune, store
from tvmconv.core.errors import ConfigError

_KEYS = [f"{number:064x}" for number in range(20)]


def content(number: int, size: int = 3000) -> bytes:
    return random.Random(number).randbytes(size)


def stored(number: int, size: int = 3000) -> bytes:
    data = content(number, size)
    store(KERNEL, _KEYS[number], [data[:10], memoryview(data)[10:]])
    return data


def loaded(number: int) -> bytes | None:
    found = load(KERNEL, _KEYS[number])
    return None if found is None else found.tobytes()


def test_an_entry_comes_back_aligned(cache: Path) -> None:
    assert loaded(0) is None
    data = stored(0)
    found = load(KERNEL, _KEYS[0])
    assert found is not None
    assert found.tobytes() == data
    assert found.ctypes.data % entries.ALIGNMENT == 0
    assert load(MODEL, _KEYS[0]) is None
    assert cache.stat().st_mode & 0o777 == 0o700


def test_a_damaged_entry_is_removed_and_made_again(cache: Path) -> None:
    generator = random.Random(0)
    data = stored(0, 500)
    (path,) = cache.iterdir()
    good = path.read_bytes()
    for number in range(1000):
        bad = bytearray(good)
        if number % 3 == 0:
            bad[generator.randrange(len(bad))] ^= 1 << generator.randrange(8)
        elif number % 3 == 1:
            del bad[generator.randrange(len(bad)) :]
        else:
            bad = bytearray() if number % 2 else bad + generator.randbytes(3)
        path.write_bytes(bad)
        assert loaded(0) is None, number
        assert not path.exists()
    assert stored(0, 500) == data == loaded(0)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_folder_that_cannot_be_written_warns_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(entries, "write_blocks", fail)
    with pytest.warns(UserWarning, match=os.strerror(code)) as seen:
        stored(0)
        stored(1)
    assert len(seen) == 1
    assert list(cache.iterdir()) == []
    assert loaded(0) is None


def test_a_place_that_is_no_folder_warns_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(folder.ENVIRONMENT, str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cannot make the cache folder") as seen:
        stored(0)
        assert loaded(0) is None
    assert len(seen) == 1


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(cache: Path, mode: int) -> None:
    stored(0)
    cache.chmod(mode)
    with pytest.warns(UserWarning, match="others may write"):
        assert loaded(0) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored(1)
    assert len(list(cache.iterdir())) == 1


def test_a_folder_of_another_user_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(0)
    monkeypatch.setattr(folder.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert loaded(0) is None


def test_links_are_not_followed(cache: Path, tmp_path: Path) -> None:
    stored(0)
    (path,) = cache.iterdir()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert loaded(0) is None
    cache.rename(tmp_path / "moved")
    cache.symlink_to(tmp_path / "moved")
    assert entries.entries() == []


def used(number: int, seconds_ago: float) -> None:
    when = time.time() - seconds_ago
    name = f"{KERNEL}-{_KEYS[number]}"
    os.utime(Path(folder.entries_folder() or "") / name, (when, when))


def names(found: list[Entry]) -> set[int]:
    return {_KEYS.index(entry.name.partition("-")[2]) for entry in found}


def test_the_oldest_use_goes_first(cache: Path) -> None:
    for number in range(6):
        stored(number, 1000)
        used(number, 100 - number)
    assert loaded(0)
    assert names(prune(2500)) == {1, 2, 3, 4}
    assert names(entries.entries()) == {0, 5}
    assert names(prune(0)) == {0, 5}


def test_the_size_is_bounded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folder.SIZE_ENVIRONMENT, "20000")
    for number in range(20):
        stored(number, 3000)
        used(number, 100 - number)
        assert sum(entry.bytes for entry in entries.entries()) <= 20000 + 3100
    assert loaded(19)
    assert not loaded(0)
    stored(1, 12000)
    assert not loaded(1)


def test_a_size_of_0_keeps_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folder.SIZE_ENVIRONMENT, "0")
    stored(0)
    assert not cache.exists()
    monkeypatch.setenv(folder.SIZE_ENVIRONMENT, "much")
    with pytest.raises(ConfigError, match="TVMCONV_CACHE_SIZE 'much'"):
        stored(0)


def test_files_of_killed_writers_go_with_time(cache: Path) -> None:
    stored(0)
    fresh, old = cache / ".new-1-a", cache / ".new-2-b"
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    (cache / "precious").write_text("mine")
    prune(0)
    assert sorted(path.name for path in cache.iterdir()) == [".new-1-a", "precious"]


_WORKER = """
import sys, time
from tests.cache.test_entries import content, loaded, stored
size = int(sys.argv[2])
for number in (int(sys.argv[1]) + i for i in range(10**9)):
    number %= 20
    found = loaded(number)
    assert found in (None, content(number, size))
    stored(number, size)
    print(number, flush=True)
"""


def worker(start: int, size: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _WORKER, str(start), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_processes_share_a_cache(cache: Path) -> None:
    started = [worker(number, 30_000) for number in range(4)]
    try:
        for process in started:
            assert process.stdout is not None
            for _ in range(60):
                assert process.stdout.readline()
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert any(loaded(number) for number in range(20))
    assert all(loaded(number) in (None, content(number, 30_000)) for number in range(20))


@pytest.mark.slow
def test_a_killed_writer_leaves_only_good_entries(cache: Path) -> None:
    generator = random.Random(1)
    for _ in range(60):
        process = worker(generator.randrange(20), 4_000_000)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(generator.random() * 0.05)
        process.kill()
        process.communicate()
        kept = [loaded(number) for number in range(20)]
        assert all(kept[n] in (None, content(n, 4_000_000)) for n in range(20))
        assert any(kept)
