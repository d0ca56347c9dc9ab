"""Columns of tables whose headings are the keys of their values."""

from __future__ import annotations

from tvmconv.report.table import Column


def plain(*keys: str) -> tuple[Column, ...]:
    """A column for each key, without a format."""
    return tuple(Column(key, key) for key in keys)
