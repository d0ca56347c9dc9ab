"""Arithmetic of cutting loops: divisors and even pieces."""

from __future__ import annotations


def divisors(count: int) -> list[int]:
    """All divisors, in ascending order."""
    return [d for d in range(1, count + 1) if count % d == 0]


def largest_divisor(count: int, most: int) -> int:
    """The largest divisor that is at most ``most``, or 1."""
    return max(d for d in divisors(count) if d <= max(1, most))


def balanced(extent: int, most: int) -> int:
    """The smallest size that makes no more pieces than ``most`` does."""
    count = -(-extent // most)
    return -(-extent // count)
