"""Results as one file, which is complete even if a measurement is cut off."""

from __future__ import annotations

import zipfile
from pathlib import Path

SUFFIX = ".zip"


class Archive:
    """One file with the results of a folder; no file where ``path`` is None.

    Files of the folder are replaced at once.
    """

    def __init__(self, folder: Path, path: Path | None) -> None:
        self._folder, self._path = folder, path
        self._seen: dict[str, tuple[int, int]] = {}

    def update(self) -> bool:
        """Write the file anew if the folder has changed; returns whether it had."""
        if self._path is None:
            return False
        files = sorted(p for p in self._folder.glob("*.json*") if p.suffix in (".json", ".gz"))
        stats = {path.name: path.stat() for path in files}
        seen = {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}
        if not seen or seen == self._seen:
            return False
        written = self._path.with_name(f"{self._path.name}.new")
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, path.name)
        written.replace(self._path)
        self._seen = seen
        return True
