"""A cache of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tvmconv.cache import entries, folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an empty cache, which is on."""
    monkeypatch.setenv(folder.ENVIRONMENT, str(tmp_path / "cache"))
    monkeypatch.setenv(folder.SIZE_ENVIRONMENT, "1GiB")
    monkeypatch.setattr(folder, "_warned", set())
    monkeypatch.setattr(entries, "_written", {})
    yield tmp_path / "cache/compiled"
