"""Emits a run of FMAs as one piece of assembly, scheduled for an in-order core.

LLVM schedules all loads at a loop's head, before FMAs that could hide them, and keeps more vectors
than there are registers. A part of
:func:`tvmconv.tir.neon.inorder_half_loads.InorderHalfLoads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

# vector registers of AArch64
_REGISTERS = 32
# a vector is complete so many FMAs before its first use
_AHEAD = 12
# integer registers, each for the upper half of a vector
_UPPER_REGISTERS = 3
# Latencies of Cortex-A53 in cycles: load to insertion, insertion to FMA, and FMA to FMA of the same
# accumulator (github.com/ocxtal/insn_bench_aarch64, github.com/daniestevez/qsdr)
_LOADED, _INSERTED, _ACCUMULATED, _NEVER = 4, 3, 4, 1 << 30
# placeholder of an operand whose number is known at the end
_POINTER = "pointer"


@dataclass(frozen=True)
class Sum:
    """An FMA: accumulator ``total``, vectors ``factor`` and ``lanes`` by number, and the lane."""

    total: int
    factor: int
    lanes: int
    lane: int


def _by_factor(sums: Sequence[Sum]) -> list[Sum]:
    """The FMAs grouped by factor, so that each factor needs a register for a short time."""
    first: dict[int, int] = {}
    for place, each in enumerate(sums):
        first.setdefault(each.factor, place)
    return sorted(sums, key=lambda each: first[each.factor])


@dataclass
class _Text:
    """Lines of assembly in cycle order, and the registers that they use.

    A cycle issues an FMA and the load of an upper half. Or it issues the load of a vector's lower
    half and the insertion of another vector's upper half.
    """

    order: Sequence[Sum]
    places: Sequence[tuple[int, int]]
    totals: Sequence[int]

    def __post_init__(self) -> None:
        self.lines: list[str] = []
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for place, each in enumerate(self.order):
            for vector in (each.lanes, each.factor):
                self.first.setdefault(vector, place)
                self.last[vector] = place
        # vectors not yet started, started vectors with the upper half's register, complete vectors
        self.left = list(self.first)
        self.begun: list[tuple[int, int]] = []
        self.whole: dict[int, int] = {}
        self.due = self._due()
        self.free = list(range(_REGISTERS - len(self.totals)))[::-1]
        self.taken, self.cycle = 0, 0
        self.held: dict[int, int] = {}
        # the cycle from which each upper half, and each accumulator, can be used
        self.uppers: dict[int, int] = {}
        self.sums: dict[int, int] = {}

    def _due(self) -> dict[int, int]:
        """The FMA before which a vector is started, early enough and one at a time."""
        due, after = {}, len(self.order)
        before = [self.left[0], *self.left[:-1]]
        for vector, other in reversed(list(zip(self.left, before, strict=True))):
            after = due[vector] = min(self.first[other] - _AHEAD, after - 1)
        return due

    def _vector(self, vector: int, half: bool = False) -> str:
        operand = len(self.totals) + _UPPER_REGISTERS + self.held[vector]
        return f"${{{operand}:d}}" if half else f"${operand}"

    def _load(self, register: str, vector: int, offset: int = 0) -> None:
        pointer, distance = self.places[vector]
        self.lines.append(f"ldr {register}, [{_POINTER}{pointer}, #{distance + offset}]")

    def _begin(self) -> None:
        """Load the next vector's lower half."""
        vector = self.left.pop(0)
        self.held[vector] = self.free.pop()
        self.taken = max(self.taken, self.held[vector] + 1)
        self._load(self._vector(vector, half=True), vector)
        used = {upper for _, upper in self.begun}
        self.begun.append((vector, min(set(range(_UPPER_REGISTERS)) - used)))

    def _load_upper(self) -> None:
        """Load the upper half of the vector that was started last."""
        vector, upper = self.begun[-1]
        self._load(f"${len(self.totals) + upper}", vector, 8)
        self.uppers[vector] = self.cycle + _LOADED

    def _complete(self) -> None:
        """Insert the upper half of the vector that was started first."""
        vector, upper = self.begun.pop(0)
        self.lines.append(f"ins {self._vector(vector)}.d[1], ${len(self.totals) + upper}")
        self.whole[vector] = self.cycle + _INSERTED

    def _add(self, place: int) -> None:
        each = self.order[place]
        product = f"{self._vector(each.factor)}.4s, {self._vector(each.lanes)}.s[{each.lane}]"
        self.lines.append(f"fmla ${self.totals.index(each.total)}.4s, {product}")
        self.sums[each.total] = self.cycle + _ACCUMULATED
        for vector in (each.lanes, each.factor):
            if self.last[vector] == place:
                self.free.append(self.held.pop(vector))

    def _startable(self, place: int) -> bool:
        """Whether an FMA has its operands."""
        each, later = self.order[place], self.cycle + 1
        operands = (self.whole.get(vector, later) for vector in (each.lanes, each.factor))
        return max(*operands, self.sums.get(each.total, 0)) <= self.cycle

    def _missing(self, place: int) -> bool:
        """Whether an FMA has an operand that was not started."""
        each = self.order[place]
        return not {each.lanes, each.factor} <= self.held.keys()

    def cycles(self) -> int | None:
        """Write all lines; cycles until the last FMA issues, None if registers do not suffice."""
        place = 0
        while place < len(self.order):
            waiting = bool(self.begun) and self.begun[-1][0] not in self.uppers
            arrived = bool(self.begun) and self.uppers.get(self.begun[0][0], _NEVER) <= self.cycle
            room = (
                bool(self.left and self.free) and len(self.begun) < _UPPER_REGISTERS and not waiting
            )
            startable = self._startable(place)
            due = room and self.due[self.left[0]] <= place
            needed = arrived and self.first[self.begun[0][0]] <= place + _INSERTED
            if (due and (arrived or len(self.begun) < 2)) or needed:
                if room:
                    self._begin()
                if arrived:
                    self._complete()
            elif startable:
                self._add(place)
                place += 1
                if waiting:
                    self._load_upper()
            elif waiting:
                self._load_upper()
            elif arrived:
                self._complete()
            elif not self.begun and self._missing(place):
                if not room:
                    return None
                self._begin()
            self.cycle += 1
        return self.cycle


def assembly(
    sums: Sequence[Sum], places: Sequence[tuple[int, int]], pointers: int
) -> tuple[str, str] | None:
    """The name and the text of an LLVM function that accumulates to memory.

    ``sums`` are FMAs in an order in which none waits for a recent one. ``places`` are the pointer
    of each vector, and its byte offset, a multiple of 8. ``pointers`` is the number of pointers.
    The function's arguments are a pointer to the accumulators, vectors of four FP32 values, and the
    other pointers. None if the vectors exceed the registers.
    """
    totals = sorted({each.total for each in sums})
    texts = [_Text(order, places, totals) for order in (_by_factor(sums), sums)]
    found = [(cycles, number) for number, text in enumerate(texts) if (cycles := text.cycles())]
    if not found:
        return None
    text = texts[min(found)[1]]
    vector, counts = "<4 x float>", (len(totals), _UPPER_REGISTERS, text.taken)
    kinds = [vector] * counts[0] + ["i64"] * _UPPER_REGISTERS + [vector] * text.taken
    outputs = ["=&w"] * counts[0] + ["=&r"] * _UPPER_REGISTERS + ["=&w"] * text.taken
    code = "\\0A".join(text.lines)
    for number in range(pointers):
        code = code.replace(f"{_POINTER}{number},", f"${sum(counts) + number},")
    inputs = ["r"] * pointers + [str(number) for number in range(len(totals))]
    given = [f"ptr %from{i}" for i in range(pointers)] + [f"{vector} %sum{t}" for t in totals]
    name = f"tvmconv.sums.{sha256(repr((code, totals)).encode()).hexdigest()[:16]}"
    lines = [f"define i32 @{name}(ptr %sums, " + ", ".join(given[:pointers]) + ") alwaysinline {"]
    for total in totals:
        lines.append(f"  %at{total} = getelementptr {vector}, ptr %sums, i64 {total}")
        lines.append(f"  %sum{total} = load {vector}, ptr %at{total}, align 16")
    # LLVM's scheduler sees only the constraints of assembly. Without the last one it would move
    # stores to the loaded memory, such as a panel just packed, after the assembly
    constraints = ",".join([*outputs, *inputs, "~{memory}"])
    lines.append(
        f'  %all = call {{{", ".join(kinds)}}} asm "{code}", "{constraints}"'
        f"({', '.join(given)}) nounwind willreturn noduplicate memory(read)"
    )
    for number, total in enumerate(totals):
        lines.append(f"  %new{total} = extractvalue {{{', '.join(kinds)}}} %all, {number}")
        lines.append(f"  store {vector} %new{total}, ptr %at{total}, align 16")
    return name, "\n".join([*lines, "  ret i32 0", "}", ""])
