"""Compiled models as bytes: all that a build makes, for the cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from tvmconv.compile.machine_code import Objects
from tvmconv.compile.program import CompiledProgram, TargetCode
from tvmconv.compile.source import Facts
from tvmconv.machines.record import Machine
from tvmconv.program.program import ALIGNMENT, Constant, Program
from tvmconv.runtime.weights import Bytes, pack_header

_LENGTH_BYTES = 8
_WEIGHTS_HEADER = len(pack_header(0, bytes(32)))


def packed(code: CompiledProgram, manifest: str) -> Sequence[bytes | memoryview]:
    """A model for CPUs in pieces: facts and manifest as JSON, objects, constants."""
    weights, targets = code.weights, code.targets
    head = {
        "manifest": manifest,
        "targets": [
            {
                "program": target.program.to_json(),
                "facts": asdict(target.facts),
                "workspace": dict(target.objects.workspace),
                "vectors": dict(target.objects.vectors),
                "objects": {symbol: len(data) for symbol, data in target.objects.code.items()},
            }
            for target in targets
        ],
    }
    text = json.dumps(head).encode()
    pieces = [len(text).to_bytes(_LENGTH_BYTES, "little"), text]
    pieces += [data for target in targets for data in target.objects.code.values()]
    # constants are used in place
    pieces.append(bytes(-sum(map(len, pieces)) % ALIGNMENT))
    return [*pieces, weights.data]


def unpacked(content: Bytes, machines: Sequence[Machine], cc: str) -> CompiledProgram:
    """Inverse of :func:`packed`; the constants stay in ``content``."""
    head, start = _head(content)
    targets = []
    for data, machine in zip(head["targets"], machines, strict=True):
        code = {}
        for symbol, size in data["objects"].items():
            code[symbol] = content[start : start + size].tobytes()
            start += size
        objects = Objects(code, data["workspace"], data["vectors"])
        facts = Facts(**{**data["facts"], "features": tuple(data["facts"]["features"])})
        program = Program.from_json(data["program"])
        targets.append(TargetCode(program, objects, facts, machine))
    weights = content[start + -start % ALIGNMENT :]
    first, *others = targets
    program = first.program
    if program.constant_bytes:
        program = replace(program, constants=(Constant(0, weights[_WEIGHTS_HEADER:]),))
    return CompiledProgram(program, first.objects, first.facts, first.machine, cc, weights, others)


def manifest_of(content: Bytes) -> str:
    """The text of the manifest in packed bytes."""
    return str(_head(content)[0]["manifest"])


def _head(content: Bytes) -> tuple[dict[str, Any], int]:
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES].tobytes(), "little")
    return json.loads(content[_LENGTH_BYTES:end].tobytes()), end
