"""Programs that are missing are named with the packages that hold them."""

from __future__ import annotations

import pytest

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation import cache, tools


def test_llvm_is_named(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    tools.llvm_tool.cache_clear()
    with pytest.raises(ArtifactError, match=r"llvm-mca of LLVM 19 .* apt install .*llvm-19"):
        tools.llvm_tool("llvm-mca")


def test_an_old_llvm_is_not_taken(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda name: name if name == "llvm-mca" else None)
    monkeypatch.setattr(tools, "output_of", lambda *_: "Debian LLVM version 14.0.6")
    tools.llvm_tool.cache_clear()
    with pytest.raises(ArtifactError, match="LLVM 19 or newer"):
        tools.llvm_tool("llvm-mca")
    monkeypatch.setattr(tools, "output_of", lambda *_: "LLVM version 20.1.2")
    assert tools.llvm_tool("llvm-mca") == "llvm-mca"
    tools.llvm_tool.cache_clear()


def test_a_qemu_without_plugins_is_refused(monkeypatch):
    monkeypatch.setattr(tools, "output_of", lambda command: f"usage: {command[0]}\n-cpu MODEL")
    monkeypatch.setattr(tools, "emulator", lambda _: ["qemu-aarch64-static"])
    said = r"requires a qemu-aarch64 with plugins; qemu-aarch64-static has no plugins .* qemu-user"
    with pytest.raises(ArtifactError, match=said):
        tools.counting_emulator("aarch64-linux-gnu")


def test_a_program_that_fails_is_reported():
    with pytest.raises(ArtifactError, match=r"false: exit status 1"):
        tools.output_of(["false"])
    with pytest.raises(ArtifactError, match="cannot start no-such-program"):
        tools.output_of(["no-such-program"])


def test_what_is_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("TVMCONV_CACHE", str(tmp_path))
    assert cache.recall("counts", "key") is None
    cache.remember("counts", "key", {"1": [[4096, "aa", 3]]})
    assert cache.recall("counts", "key") == {"1": [[4096, "aa", 3]]}
    assert cache.recall("cycles", "key") is None
    (tmp_path / "estimation" / "counts-key.json").write_text('{"1": [[')
    assert cache.recall("counts", "key") is None
    assert cache.digest("ab", "c") != cache.digest("a", "bc")


def test_a_cache_that_cannot_be_written_is_reported(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TVMCONV_CACHE", str(tmp_path / "file"))
    with pytest.raises(ArtifactError, match=r"cannot write .*estimation: .*TVMCONV_CACHE"):
        cache.remember("counts", "key", {})


def test_files_of_the_cache_are_whole_or_not_there(tmp_path):
    with pytest.raises(ZeroDivisionError), cache.kept(tmp_path / "tool") as fresh:
        fresh.write_text("a part")
        fresh.write_text(str(1 / 0))
    assert list(tmp_path.iterdir()) == []
    with cache.kept(tmp_path / "tool") as fresh:
        fresh.write_text("all")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["all"]
