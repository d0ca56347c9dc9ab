"""Assigns AMX tile registers to accumulators, weights and data, and emits tile instructions.

It lowers the calls of :mod:`tvmconv.tir.amx.tile_calls` and removes their buffer of accumulators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm_ffi import structural_hash

from tvmconv.tir.amx.tile_calls import BEGIN, PRODUCT, STORE
from tvmconv.tir.general.rewrite import function_pass, local_buffer, nodes_of, rebuilt
from tvmconv.tir.general.stack_buffers import on_stack

_REGISTERS, _ROWS, _ROW_BYTES, _DWORD = 8, 16, 64, 4
# TVM's operator, and the tile instructions that it calls, without their configuration
_CALL = "tirx.call_llvm_intrin"
_INSTRUCTIONS = ("tilezero", "tileloadd64", "tilestored64", "tdpbusd")
# layout of `ldtilecfg`: palette, bytes of each register's rows (16 bits), rows (8 bits)
_CONFIG_BYTES, _PALETTE, _ROW_BYTES_AT, _ROWS_AT = 64, 1, 16, 48
# number of `arch_prctl` on x86-64, the request, and the state component of tile data
_PERMISSION = (158, 0x1023, 18)


def AllocateTiles() -> Any:
    """A pass that assigns registers to tiles.

    Pattern: calls of :func:`TileCalls`. Each tile of accumulators is initialized, then updated,
    then stored, in the order of statements.

    Rewrite: accumulators get the first registers, tiles of weights the next ones, tiles of data the
    last ones. A sequence of products loads each tile once, or again if registers do not suffice.
    Accumulators start at zero, or are loaded from the bias with a row stride of 0. The innermost
    parallel loop, or the function without one, configures the registers first and releases them at
    its end. The buffer of accumulators is removed.

    Why here: loops over tiles are unrolled, so that indices of accumulators are constants.
    """
    return function_pass("amx.AllocateTiles", _tile_registers)


def _tile_registers(func: Any) -> Any:
    calls: list[Any] = []
    runs: list[list[Any]] = []
    walk = tvm_ffi.structural_walk
    walk(func.body, (tirx.Evaluate, lambda node: calls.extend(_tile_calls([node]))))
    walk(func.body, (tirx.SeqStmt, lambda node: runs.append(_tile_calls(node.seq))))
    if not calls:
        return func
    registers = _Registers.of(calls, [*runs, calls[:1]])

    def sequence(node: Any) -> Any:
        parts = [part for part in node.seq if not registers.allocates(part)]
        return tirx.SeqStmt(registers.rewritten(parts))

    def alone(node: Any) -> Any:
        return tirx.SeqStmt(registers.rewritten([node])) if _tile_calls([node]) else node

    body = tvm_ffi.structural_map(func.body, (tirx.SeqStmt, sequence))
    body = tvm_ffi.structural_map(body, (tirx.Evaluate, alone))
    return func.with_body(_configured(body, registers))


def _tile_calls(statements: Iterable[Any]) -> list[Any]:
    """The tile calls among statements."""
    values = (part.value for part in statements if isinstance(part, tirx.Evaluate))
    return [call for call in values if _name(call) in (BEGIN, PRODUCT, STORE)]


def _name(call: Any) -> str:
    return str(getattr(getattr(call, "op", None), "name", ""))


def _key(call: Any) -> tuple[Any, int]:
    """The tile of accumulators of a call: its buffer and the index of its first value."""
    load = call.args[1].args[0]
    return load.source, int(load.indices[0])


@dataclass(frozen=True)
class _Registers:
    """The assignment of registers.

    ``sums`` has each tile of accumulators with its register. ``pixels`` are rows of tiles of data
    and of accumulators. Registers of ``weight_count`` tiles of weights follow the accumulators;
    registers of ``pixel_count`` tiles of data follow the weights.
    """

    sums: Mapping[tuple[Any, int], int]
    pixels: int
    weight_count: int
    pixel_count: int

    @classmethod
    def of(cls, calls: Sequence[Any], runs: Iterable[Sequence[Any]]) -> _Registers:
        """Assign registers for all calls of a function, in order, which occur in such sequences."""
        sums: dict[tuple[Any, int], int] = {}
        live: dict[tuple[Any, int], int] = {}
        for call in calls:
            key = _key(call)
            if _name(call) == BEGIN:
                taken = set(live.values())
                live[key] = next(i for i in range(len(taken) + 1) if i not in taken)
                if sums.setdefault(key, live[key]) != live[key]:
                    raise ValueError(
                        f"cannot assign tile registers: a tile of {key[0].name} has two. Expected "
                        "the same order of tiles in each copy. Use one order in the schedule."
                    )
            elif _name(call) == STORE:
                del live[key]
        free = _REGISTERS - max(sums.values()) - 1
        products = [[call for call in run if _name(call) == PRODUCT] for run in runs]
        weights, pixels = (
            max(len({structural_hash(call.args[at]) for call in run}) for run in products)
            for at in (5, 3)
        )
        if free < 2:
            raise ValueError(
                f"cannot assign tile registers: {len(sums)} hold accumulators. Expected at most "
                f"{_REGISTERS - 2}. Use smaller tiles in the schedule."
            )
        weight_count = min(max(weights, 1), free - 1)
        pixel_count = min(max(pixels, 1), free - weight_count)
        return cls(sums, int(calls[0].args[0]), weight_count, pixel_count)

    @property
    def first_weight(self) -> int:
        return max(self.sums.values()) + 1

    @property
    def first_pixel(self) -> int:
        return self.first_weight + self.weight_count

    def allocates(self, statement: Any) -> bool:
        """Whether a statement allocates accumulators that are now in registers."""
        buffers = [buffer for buffer, _ in self.sums]
        return isinstance(statement, tirx.AllocBuffer) and any(
            statement.buffer.same_as(buffer) for buffer in buffers
        )

    def rewritten(self, statements: Iterable[Any]) -> list[Any]:
        """The statements, with tile calls lowered to instructions."""
        weights = _Loaded(self.first_weight, self.weight_count)
        pixels = _Loaded(self.first_pixel, self.pixel_count)
        parts: list[Any] = []
        for statement in statements:
            calls = _tile_calls([statement])
            if not calls:
                parts.append(statement)
                continue
            (call,) = calls
            register, rest = self.sums[_key(call)], call.args[3:]
            if _name(call) == PRODUCT:
                b = weights.register(rest[2:], parts)
                a = pixels.register(rest[:2], parts)
                parts.append(_instruction("tdpbusd", register, a, b))
            elif _name(call) == STORE:
                parts.append(_moved("tilestored64", register, rest))
            elif len(rest):
                parts.append(_moved("tileloadd64", register, rest))
            else:
                parts.append(_instruction("tilezero", register))
        return parts


class _Loaded:
    """Registers that hold recently loaded tiles."""

    def __init__(self, first: int, count: int) -> None:
        self._free = list(range(first, first + count))
        self._held: dict[int, int] = {}

    def register(self, operand: Sequence[Any], parts: list[Any]) -> int:
        """The register of a tile at an address; loads the tile if no register holds it."""
        key = structural_hash(operand[0])
        if key in self._held:
            register = self._held.pop(key)
        else:
            oldest = next(iter(self._held), None) if not self._free else None
            register = self._free.pop(0) if oldest is None else self._held.pop(oldest)
            parts.append(_moved("tileloadd64", register, operand))
        self._held[key] = register
        return register


def _instruction(name: str, *operands: Any) -> Any:
    """A call of an LLVM intrinsic; integers are register numbers."""
    args = [tirx.IntImm("uint8", o) if isinstance(o, int) else o for o in operands]
    return tirx.Evaluate(tirx.call_llvm_intrin("void", f"llvm.x86.{name}", *args))


def _moved(name: str, register: int, operand: Sequence[Any]) -> Any:
    address, distance = operand
    return _instruction(name, register, address, tirx.IntImm("int64", int(distance)))


def _is_instruction(statement: Any) -> bool:
    """Whether a statement is an instruction that :func:`AllocateTiles` emits."""
    return _intrinsic(statement) in _numbers(*_INSTRUCTIONS)


def _intrinsic(statement: Any) -> int | None:
    """The number of the LLVM intrinsic that a statement calls; None for any other statement."""
    if not isinstance(statement, tirx.Evaluate):
        return None
    return int(statement.value.args[0]) if _name(statement.value) == _CALL else None


@cache
def _numbers(*names: str) -> frozenset[int]:
    """LLVM's numbers of intrinsics, by which TVM's calls refer to them."""
    calls = (tirx.call_llvm_intrin("void", f"llvm.x86.{name}") for name in names)
    return frozenset(int(call.args[0]) for call in calls)


def loaded_weights(statement: Any) -> Any:
    """The first value of the tile of weights that a statement loads; None for any other."""
    if _intrinsic(statement) not in _numbers("tileloadd64"):
        return None
    load = statement.value.args[2].args[0]
    return load if str(load.source.dtype) == "int8" else None


def stores_tile(statement: Any) -> bool:
    """Whether a statement stores a tile to memory."""
    return _intrinsic(statement) in _numbers("tilestored64")


def _configured(body: Any, registers: _Registers) -> Any:
    """A function's body that configures tile registers around their use, in each task."""
    parts = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    done: list[Any] = []
    run: list[Any] = []
    for part in [*parts, None]:
        if part is not None and not _is_parallel(part):
            run.append(part)
            continue
        done += _run_configured(run, registers)
        run = []
        if part is not None and _has_tiles(part):
            part = rebuilt(part, body=tirx.SeqStmt(_run_configured([part.body], registers)))
        done += [] if part is None else [part]
    return tirx.stmt_seq(*done)


def _is_parallel(statement: Any) -> bool:
    return isinstance(statement, tirx.For) and statement.kind == tirx.ForKind.PARALLEL


def _run_configured(parts: list[Any], registers: _Registers) -> list[Any]:
    """Statements of one thread, with tile registers configured from first to last use."""
    using = [index for index, part in enumerate(parts) if _has_tiles(part)]
    if not using:
        return parts
    first, last = using[0], using[-1] + 1
    return [*parts[:first], *_around(parts[first:last], registers), *parts[last:]]


def TilePermission() -> Any:
    """A pass that requests AMX from the operating system at the beginning of functions.

    Pattern: a function with tile instructions that TVM's runtime calls.

    Rewrite: a call of Linux's ``arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`` first; it
    takes 67 ns.

    Why here: such functions run in processes that have not requested AMX, for example TVM's RPC
    server or a compiled Relax module. Saved models request it once, when they are loaded.
    """
    return function_pass("amx.TilePermission", _with_permission)


def _with_permission(func: Any) -> Any:
    if not _has_tiles(func.body):
        return func
    numbers = [tirx.IntImm("int64", number) for number in _PERMISSION]
    ask = tirx.Evaluate(tirx.call_extern("int64", "syscall", *numbers))
    return func.with_body(tirx.SeqStmt([ask, func.body]))


def _has_tiles(body: Any) -> bool:
    found = nodes_of(body, tirx.Evaluate)
    return any(_is_instruction(statement) for statement in found)


def _around(body: list[Any], registers: _Registers) -> list[Any]:
    bytes_ = bytearray(_CONFIG_BYTES)
    bytes_[0] = _PALETTE
    for register in range(registers.first_pixel + registers.pixel_count):
        bytes_[_ROW_BYTES_AT + 2 * register] = _ROW_BYTES
        is_weight = registers.first_weight <= register < registers.first_pixel
        bytes_[_ROWS_AT + register] = _ROWS if is_weight else registers.pixels
    starts = range(0, _CONFIG_BYTES, _DWORD)
    dwords = [int.from_bytes(bytes_[start : start + _DWORD], "little") for start in starts]
    buffer = local_buffer((len(dwords),), "int32", "tile_config")
    stores = [
        tirx.BufferStore(buffer, tirx.IntImm("int32", dword), [tirx.IntImm("int32", i)])
        for i, dword in enumerate(dwords)
    ]
    first = tirx.address_of(tirx.BufferLoad(buffer, [tirx.IntImm("int32", 0)]))
    ahead = [on_stack(buffer), *stores, _instruction("ldtilecfg", first)]
    return [*ahead, *body, _instruction("tilerelease")]
