"""Damaged and hostile logs: refused line by line, never a crash, never a config out of range."""

from __future__ import annotations

import copy
import json
import random

import pytest

from tests.tuning.examples import DEPTHWISE, SMALL, V3, V4, record
from tvmconv import registry
from tvmconv.tuning.logfile import read_log
from tvmconv.tuning.space import make_space, record_machine, refusal

_SEEDS = (record(), record(SMALL, V3), record(DEPTHWISE, V4, "depthwise"))
_VALUES = (
    *(None, True, False, 0, -1, 1, 2, 3, 5, 16, 1 << 31, 1 << 62, 10**400, -(1 << 40)),
    *(0.5, 1e308, -0.0, "", "x", "blocked", "naive", "direct", "../../etc", "\x00", "é" * 300),
    *([], [1], {}, {"oc": 1}, {"a": {"a": {"a": {}}}}),
)
_TOKENS = (b"NaN", b"-Infinity", b"1e999", b"{", b"]", b'"', b"\\u0000", b"\xff", b",", b"9" * 400)


def _paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from _paths(item, (*path, key))
        else:
            yield (*path, key)


def _structural(data, generator):
    path = generator.choice([p for p in _paths(data) if p])
    parent = data
    for key in path[:-1]:
        parent = parent[key]
    kind = generator.random()
    if kind < 0.15 and isinstance(parent, dict):
        del parent[path[-1]]
    elif kind < 0.3 and isinstance(parent, dict):
        parent[generator.choice(["oc", "ow", "bands", "variant", "zzz", "v"])] = copy.deepcopy(
            generator.choice(_VALUES)
        )
    elif kind < 0.5 and type(parent[path[-1]]) is int:
        parent[path[-1]] += generator.choice([-100, -2, -1, 1, 2, 3, 7, 1000])
    else:
        parent[path[-1]] = copy.deepcopy(generator.choice(_VALUES))


def _mutant(generator):
    data = json.loads(generator.choice(_SEEDS).to_line())
    for _ in range(generator.choice([0, 1, 1, 1, 2, 3])):
        _structural(data, generator)
    line = bytearray(json.dumps(data).encode())
    for _ in range(generator.choice([0, 0, 0, 1, 2, 8])):
        at = generator.randrange(len(line))
        token = generator.choice(_TOKENS) if generator.random() < 0.5 else bytes([line[at] ^ 1])
        line[at : at + generator.choice([0, 1, 1, 5])] = token
    return bytes(line).replace(b"\n", b" ")


def _check(path, count, seed):
    generator = random.Random(seed)
    path.write_bytes(b"\n".join(_mutant(generator) for _ in range(count)) + b"\n")
    log = read_log(path, warn=False)
    assert len(log.records) + len(log.skipped) <= count
    accepted = 0
    for entry in log.records:
        entry.to_line()
        if refusal(entry):
            continue
        accepted += 1
        machine = record_machine(entry.machine)
        values = make_space(entry.workload, machine, entry.algorithm).values
        config = registry.knobs(entry.algorithm, machine).complete(entry.config)
        registry.check(entry.algorithm, entry.workload, machine, config)
        assert set(config) == set(values)
        for name, allowed in values.items():
            setting = config[name]
            assert type(setting) in {type(v) for v in allowed}
            if type(setting) is int:
                assert min(allowed) <= setting <= max(allowed)
            else:
                assert setting in allowed
    return accepted, len(log.skipped)


def test_mutated_logs_are_at_worst_refused(tmp_path):
    accepted, skipped = _check(tmp_path / "a.jsonl", 500, 1)
    assert accepted > 20
    assert skipped > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_mutations(tmp_path, seed):
    _check(tmp_path / "a.jsonl", 1000, 100 + seed)
