"""Programs that are missing are named with the packages that hold them."""

from __future__ import annotations

import pytest

from tvmconv.core.errors import ArtifactError
from tvmconv.estimation import cache, tools


def test_llvm_is_named(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    tools.llvm_tool.cache_clear()
    with pytest.raises(ArtifactError, match=r"need llvm-mca of LLVM 19 .* apt install .*llvm-19"):
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


def test_the_static_qemu_takes_no_plugins(monkeypatch):
    monkeypatch.setattr(tools, "emulator", lambda _: ["qemu-aarch64-static"])
    with pytest.raises(ArtifactError, match=r"needs qemu-aarch64; .* apt install qemu-user"):
        tools.counting_emulator("aarch64-linux-gnu")


def test_a_program_that_fails_is_told():
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
