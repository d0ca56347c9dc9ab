"""Output that has no place to go: a full disk, a closed descriptor, an encoding of few letters."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tvmconv.__main__ import main
from tvmconv.core.errors import ArtifactError
from tvmconv.core.results import write_result

COMMAND = f"{sys.executable} -m tvmconv machine --target x86-64-v3"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("> /dev/full", 1, "tvmconv: cannot write the standard output: No space left on device\n"),
        ("--json > /dev/full", 1, "tvmconv: cannot write the standard output: "),
        (">&-", 0, ""),
        ("| head -c 1 > /dev/null", 0, ""),
    ],
)
def test_standard_output_that_takes_nothing(words: str, code: int, said: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        f"{COMMAND} {words}",
        shell=True,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == (1 if said else 0)


def test_a_result_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    write_result(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for name in ("result.json", "new.json"):
            with pytest.raises(ArtifactError, match=rf"cannot write .*{name}: No space left"):
                write_result(tmp_path / name, b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    assert path.read_bytes() == b"old"
    write_result(path, b"new")
    assert path.read_bytes() == b"new"


def test_devices_are_written_as_they_are(tmp_path: Path) -> None:
    write_result(Path("/dev/null"), b"new")
    with pytest.raises(ArtifactError, match=r"cannot write /dev/full: No space left on device"):
        write_result(Path("/dev/full"), b"new")
    assert Path("/dev/null").is_char_device()


def test_an_interrupted_start_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "tvmconv.cli.main", SimpleNamespace(main=interrupted))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capfd.readouterr() == ("", "")
