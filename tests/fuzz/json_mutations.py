"""Structural changes of JSON data, and damage to its text."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 5, 16, 1 << 31, 1 << 62, 10**400, -(1 << 40)),
    *(0.5, 1e308, -0.0, "", "x", "blocked", "naive", "direct", "../../etc", "\x00", "é" * 300),
    *([], [1], {}, {"oc": 1}, {"a": {"a": {"a": {}}}}),
)
_TOKENS = (
    *(b"NaN", b"-Infinity", b"1e999", b"{", b"]", b'"', b"\\u0000", b"\xff", b",", b"9" * 400),
    *(b"9" * 5000, b"[" * 2000, b'{"a":' * 2000, b"\\ud800"),
)
_NEW_KEYS = ("oc", "ow", "bands", "zzz", "v")


def change(data: Any, generator: random.Random) -> None:
    """Delete, add or replace one entry anywhere in the data."""
    path = generator.choice([p for p in _paths(data) if p])
    parent = data
    for key in path[:-1]:
        parent = parent[key]
    kind = generator.random()
    if kind < 0.15 and isinstance(parent, dict):
        del parent[path[-1]]
    elif kind < 0.3 and isinstance(parent, dict):
        parent[generator.choice(_NEW_KEYS)] = copy.deepcopy(generator.choice(VALUES))
    elif kind < 0.5 and type(parent[path[-1]]) is int:
        parent[path[-1]] += generator.choice([-100, -2, -1, 1, 2, 3, 7, 1000])
    else:
        parent[path[-1]] = copy.deepcopy(generator.choice(VALUES))


def mutated_text(data: Any, generator: random.Random) -> bytes:
    """The data changed in up to three entries, as text damaged in up to eight places."""
    for _ in range(generator.choice([0, 1, 1, 1, 2, 3])):
        change(data, generator)
    text = bytearray(json.dumps(data).encode())
    for _ in range(generator.choice([0, 0, 0, 1, 2, 8])):
        at = generator.randrange(len(text))
        token = generator.choice(_TOKENS) if generator.random() < 0.5 else bytes([text[at] ^ 1])
        text[at : at + generator.choice([0, 1, 1, 5])] = token
    return bytes(text)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from _paths(item, (*path, key))
        else:
            yield (*path, key)
