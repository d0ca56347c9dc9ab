"""The rules for operators other than convolutions, in the order in which they are tried."""

from __future__ import annotations

from tvmconv.schedules.cpu.rules import RULES

__all__ = ["RULES"]
