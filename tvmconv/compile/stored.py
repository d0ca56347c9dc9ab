"""Compiled models as bytes: all that a build makes, for the cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from tvmconv.compile.parts import Objects
from tvmconv.compile.program import CompiledProgram
from tvmconv.compile.source import Facts
from tvmconv.machines.record import Machine
from tvmconv.program.program import ALIGNMENT, Constant, Program
from tvmconv.runtime.weights import Bytes, pack_header

_LENGTH_BYTES = 8
_WEIGHTS_HEADER = len(pack_header(0, bytes(32)))


def packed(code: CompiledProgram, manifest: str) -> Sequence[bytes | memoryview]:
    """A model for CPUs in pieces: facts and manifest as JSON, objects, constants."""
    weights, objects = code.weights, code.objects
    head = {
        "manifest": manifest,
        "program": code.program.to_json(),
        "facts": asdict(code.facts),
        "workspace": dict(objects.workspace),
        "vectors": dict(objects.vectors),
        "objects": {symbol: len(content) for symbol, content in objects.code.items()},
    }
    text = json.dumps(head).encode()
    pieces = [len(text).to_bytes(_LENGTH_BYTES, "little"), text, *objects.code.values()]
    # constants are used in place
    pieces.append(bytes(-sum(map(len, pieces)) % ALIGNMENT))
    return [*pieces, weights.data]


def unpacked(content: Bytes, machine: Machine, cc: str) -> CompiledProgram:
    """Inverse of :func:`packed`; the constants stay in ``content``."""
    head, start = _head(content)
    code = {}
    for symbol, size in head["objects"].items():
        code[symbol] = content[start : start + size].tobytes()
        start += size
    weights = content[start + -start % ALIGNMENT :]
    objects = Objects(code, head["workspace"], head["vectors"])
    facts = Facts(**{**head["facts"], "features": tuple(head["facts"]["features"])})
    program = Program.from_json(head["program"])
    if program.constant_bytes:
        program = replace(program, constants=(Constant(0, weights[_WEIGHTS_HEADER:]),))
    return CompiledProgram(program, objects, facts, machine, cc, weights)


def manifest_of(content: Bytes) -> str:
    """The text of the manifest in packed bytes."""
    return str(_head(content)[0]["manifest"])


def _head(content: Bytes) -> tuple[dict[str, Any], int]:
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES].tobytes(), "little")
    return json.loads(content[_LENGTH_BYTES:end].tobytes()), end
