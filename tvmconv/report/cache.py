"""The report of the cache: where it is, what it holds, and how large it is."""

from __future__ import annotations

from datetime import datetime

from tvmconv.cache.entries import KERNEL, LIBRARY, MODEL, Entry, entries
from tvmconv.cache.folder import ENVIRONMENT, SIZE_ENVIRONMENT, entries_folder, limit_bytes
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, bytes_text, plain

_KINDS = {MODEL: "built models", KERNEL: "kernels", LIBRARY: "linked programs"}


def cache_report() -> Report:
    """Folder, sizes and kinds of entries."""
    folder = entries_folder()
    if folder is None:
        note = f"The cache is off: {ENVIRONMENT} is none, or {SIZE_ENVIRONMENT} is 0."
        return Report("cache", "cache: off", notes=(note,))
    found = entries()
    facts = {
        "folder": str(folder),
        "bytes": sum(entry.bytes for entry in found),
        "limit_bytes": limit_bytes(),
    }
    rows = [_row(name, [e for e in found if e.kind == kind]) for kind, name in _KINDS.items()]
    columns = (*plain("kind", "entries"), Column("size", "size"), Column("used", "last used"))
    table = Table("kinds", "cached entries", columns, rows)
    return Report("cache", f"cache: {len(found)} entries", facts, (table,))


def _row(name: str, found: list[Entry]) -> dict[str, object]:
    used = max((entry.used for entry in found), default=None)
    size = sum(entry.bytes for entry in found)
    return {
        "kind": name,
        "entries": len(found),
        "bytes": size,
        "size": bytes_text(size),
        "used": datetime.fromtimestamp(used).isoformat(" ", "minutes") if used else "",
    }
