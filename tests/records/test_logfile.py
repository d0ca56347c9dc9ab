"""Log files: skipped lines, unfinished lines, writers at the same time."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

from tests.tuning.examples import record
from tvmconv.core.errors import TvmconvError
from tvmconv.records import logfile
from tvmconv.records.logfile import append, locked, read_log, rewrite


def test_unreadable_lines_are_skipped_and_named(tmp_path, caplog):
    path = tmp_path / "a.jsonl"
    good = record().to_line()
    path.write_bytes(f"{good}\n\nnonsense\n{good[:50]}\n".encode() + b"\xff\xfe\n" + good.encode())
    with caplog.at_level(logging.WARNING):
        log = read_log(path)
    assert log.records == (record(), record())
    assert [entry.line for entry in log.skipped] == [3, 4, 5]
    assert f"{path}:3: skipped: not JSON" in caplog.text


def test_overlong_line_costs_only_itself(tmp_path):
    path = tmp_path / "a.jsonl"
    good = record().to_line()
    path.write_text(f"{good}\n{'x' * 300_000}\n{good}\n")
    log = read_log(path)
    assert len(log.records) == 2
    assert [entry.line for entry in log.skipped] == [2]


def test_file_larger_than_any_log_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_text(record().to_line())
    monkeypatch.setattr(logfile, "MAX_FILE_BYTES", 10)
    with pytest.raises(TvmconvError, match="larger"):
        read_log(path)


def test_missing_file_is_a_user_error(tmp_path):
    with pytest.raises(TvmconvError, match=r"absent\.jsonl"):
        read_log(tmp_path / "absent.jsonl")


def test_a_log_without_records_is_a_file(tmp_path):
    append(tmp_path / "log.jsonl", [])
    assert read_log(tmp_path / "log.jsonl").records == ()


def test_append_ends_a_line_that_a_killed_writer_left(tmp_path):
    path = tmp_path / "sub" / "a.jsonl"
    append(path, [record().to_line()])
    with path.open("a") as file:
        file.write(record().to_line()[:40])
    append(path, [record(seconds=5e-5).to_line()])
    log = read_log(path, warn=False)
    assert [r.seconds for r in log.records] == [1e-4, 5e-5]
    assert [entry.line for entry in log.skipped] == [2]


def test_rewrite_leaves_the_old_file_where_it_fails(tmp_path):
    path = tmp_path / "a.jsonl"
    append(path, [record().to_line()])

    def lines():
        yield "x"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        rewrite(path, lines())
    assert read_log(path).records == (record(),)
    assert not [p for p in tmp_path.iterdir() if not p.name.endswith((".jsonl", ".lock"))]


_WRITER = """
import sys
from pathlib import Path
from tvmconv.records.logfile import append
for number in range(40):
    append(Path(sys.argv[1]), [sys.argv[2] * (2000 + number)])
"""


def test_two_writers_never_mix_their_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    command = [sys.executable, "-c", _WRITER, str(path)]
    writers = [subprocess.Popen([*command, letter]) for letter in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    lines = path.read_text().splitlines()
    assert sorted(lines) == sorted(c * (2000 + n) for c in "ab" for n in range(40))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="/proc holds no files of users")
def test_a_folder_without_files_fails_before_any_wait(monkeypatch):
    monkeypatch.setattr(filelock.FileLock, "acquire", lambda *_, **__: pytest.fail("it waits"))
    with pytest.raises(TvmconvError, match=r"cannot write the tuning log /proc/x: .*Name another"):
        append(Path("/proc/x"), [])


def test_lock_is_free_after_its_holder_was_killed(tmp_path):
    path = tmp_path / "a.jsonl"
    code = (
        "import sys,time\nfrom pathlib import Path\nfrom tvmconv.records.logfile import locked\n"
        "with locked(Path(sys.argv[1])):\n print('held', flush=True)\n time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with locked(path):
        pass
