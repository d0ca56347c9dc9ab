"""Columns of tables that benchmarks and the tuner share."""

from __future__ import annotations

from tvmconv.report.table import Column

# its key is the key of saved reports
IMPLEMENTATION = Column("contender", "implementation")


def plain(*keys: str) -> tuple[Column, ...]:
    """A column for each key, without a format."""
    return tuple(Column(key, key) for key in keys)
