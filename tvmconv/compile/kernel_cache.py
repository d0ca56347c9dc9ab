"""Kernels of earlier builds, from the user's cache folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property

from tvmconv.cache import entries
from tvmconv.cache.folder import entries_folder
from tvmconv.cache.identity import key_of
from tvmconv.machines.record import Machine
from tvmconv.tir.annotations import ORIGIN
from tvmconv.tir.general.c_functions import NATURAL
from tvmconv.tvm_api import ir
from tvmconv.tvm_api.types import PrimFunc


class CachedKernels:
    """The object files of functions that an earlier build has compiled, by symbol.

    ``missing`` are the symbols to compile. ``workspace`` and ``vectors`` are as in
    :class:`~tvmconv.compile.machine_code.Objects`.
    """

    def __init__(self, functions: Mapping[str, PrimFunc], machine: Machine) -> None:
        self.code: dict[str, bytes] = {}
        self.workspace: dict[str, int] = {}
        self.vectors: dict[str, str] = {}
        self._machine = machine
        self._functions = functions if entries_folder() is not None else {}
        self._keys: dict[str, str] = {}
        for symbol, function in self._functions.items():
            self._keys[symbol] = self._key(symbol, function)
            self._load(symbol)
        self.missing = [symbol for symbol in functions if symbol not in self.code]

    def keep(self, symbol: str, code: bytes, workspace: int, vectors: str) -> None:
        """Store a kernel for later builds."""
        if symbol in self._keys:
            head = json.dumps([workspace, vectors]).encode() + b"\n"
            entries.store(entries.KERNEL, self._keys[symbol], [head, code])

    def _load(self, symbol: str) -> None:
        content = entries.load(entries.KERNEL, self._keys[symbol])
        if content is None:
            return
        head, _, self.code[symbol] = bytes(content).partition(b"\n")
        workspace, vectors = json.loads(head)
        if workspace:
            self.workspace[symbol] = workspace
        if vectors:
            self.vectors[symbol] = vectors

    def _key(self, symbol: str, function: PrimFunc) -> str:
        attributes = function.attrs or {}
        origin = attributes.get(ORIGIN)
        natural = [int(index) for index in attributes.get(NATURAL, ())]
        text = (
            str(origin) if origin else hashlib.sha256(ir.save_json(function).encode()).hexdigest()
        )
        return key_of(["kernel", symbol, text, natural, self._of_machine])

    @cached_property
    def _of_machine(self) -> dict[str, object]:
        return {**self._machine.to_json(), "target": self._machine.tvm_target()}
