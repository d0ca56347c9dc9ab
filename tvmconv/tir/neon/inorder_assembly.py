"""A run of sums as one piece of assembly, in the order in which a core shall execute it.

LLVM orders instructions as it thinks best: it collects the loads at a loop's head, before the
multiply-adds beside which they would cost nothing, and keeps more vectors than there are registers.
A part of :func:`tvmconv.tir.neon.inorder_half_loads.InorderHalfLoads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

# vector registers of AArch64
_REGISTERS = 32
# multiply-adds before its first use at which a vector is to be complete
_AHEAD = 12
# integer registers for upper words
_WORDS = 3
# Cycles from the load of a word to its insertion, from there to the multiply-add, and between
# multiply-adds that add to the same sum, of Cortex-A53 (github.com/ocxtal/insn_bench_aarch64,
# github.com/daniestevez/qsdr)
_LOADED, _INSERTED, _APART, _NEVER = 4, 3, 4, 1 << 30
# stands for an operand whose number is known in the end
_POINTER = "pointer"


@dataclass(frozen=True)
class Sum:
    """A multiply-add: ``total`` and vectors ``factor`` and ``lanes`` by number, and the lane."""

    total: int
    factor: int
    lanes: int
    lane: int


def _by_factor(sums: Sequence[Sum]) -> list[Sum]:
    """The sums with those of one factor behind each other: it needs a register for no longer."""
    first: dict[int, int] = {}
    for place, each in enumerate(sums):
        first.setdefault(each.factor, place)
    return sorted(sums, key=lambda each: first[each.factor])


@dataclass
class _Text:
    """Lines of assembly in the order of their cycles, and the registers that they take.

    In a cycle starts a multiply-add, and behind it the load of an upper word; or the load of a
    vector's lower word, and beside it the insertion of another's upper one.
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
        # vectors to begin, those that were begun with the word's register, those that are whole
        self.left = list(self.first)
        self.begun: list[tuple[int, int]] = []
        self.whole: dict[int, int] = {}
        self.due = self._due()
        self.free = list(range(_REGISTERS - len(self.totals)))[::-1]
        self.taken, self.cycle = 0, 0
        self.held: dict[int, int] = {}
        # cycles from which upper words, and sums, can be used
        self.words: dict[int, int] = {}
        self.sums: dict[int, int] = {}

    def _due(self) -> dict[int, int]:
        """Before which sum a vector is begun: in time to complete the one before, one at a time."""
        due, after = {}, len(self.order)
        before = [self.left[0], *self.left[:-1]]
        for vector, other in reversed(list(zip(self.left, before, strict=True))):
            after = due[vector] = min(self.first[other] - _AHEAD, after - 1)
        return due

    def _vector(self, vector: int, half: bool = False) -> str:
        operand = len(self.totals) + _WORDS + self.held[vector]
        return f"${{{operand}:d}}" if half else f"${operand}"

    def _load(self, register: str, vector: int, behind: int = 0) -> None:
        pointer, distance = self.places[vector]
        self.lines.append(f"ldr {register}, [{_POINTER}{pointer}, #{distance + behind}]")

    def _begin(self) -> None:
        """Load the next vector's lower word."""
        vector = self.left.pop(0)
        self.held[vector] = self.free.pop()
        self.taken = max(self.taken, self.held[vector] + 1)
        self._load(self._vector(vector, half=True), vector)
        words = {word for _, word in self.begun}
        self.begun.append((vector, min(set(range(_WORDS)) - words)))

    def _load_word(self) -> None:
        """Load the upper word of the vector that was begun last."""
        vector, word = self.begun[-1]
        self._load(f"${len(self.totals) + word}", vector, 8)
        self.words[vector] = self.cycle + _LOADED

    def _complete(self) -> None:
        """Insert the upper word of the vector that was begun first."""
        vector, word = self.begun.pop(0)
        self.lines.append(f"ins {self._vector(vector)}.d[1], ${len(self.totals) + word}")
        self.whole[vector] = self.cycle + _INSERTED

    def _add(self, place: int) -> None:
        each = self.order[place]
        product = f"{self._vector(each.factor)}.4s, {self._vector(each.lanes)}.s[{each.lane}]"
        self.lines.append(f"fmla ${self.totals.index(each.total)}.4s, {product}")
        self.sums[each.total] = self.cycle + _APART
        for vector in (each.lanes, each.factor):
            if self.last[vector] == place:
                self.free.append(self.held.pop(vector))

    def _startable(self, place: int) -> bool:
        """Whether a multiply-add has its operands."""
        each, later = self.order[place], self.cycle + 1
        operands = (self.whole.get(vector, later) for vector in (each.lanes, each.factor))
        return max(*operands, self.sums.get(each.total, 0)) <= self.cycle

    def _missing(self, place: int) -> bool:
        """Whether a multiply-add has an operand that was not begun."""
        each = self.order[place]
        return not {each.lanes, each.factor} <= self.held.keys()

    def cycles(self) -> int | None:
        """Write all lines; cycles until the last starts, None where registers do not suffice."""
        place = 0
        while place < len(self.order):
            waiting = bool(self.begun) and self.begun[-1][0] not in self.words
            arrived = bool(self.begun) and self.words.get(self.begun[0][0], _NEVER) <= self.cycle
            room = bool(self.left and self.free) and len(self.begun) < _WORDS and not waiting
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
                    self._load_word()
            elif waiting:
                self._load_word()
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
    """The name and the text of a function of LLVM that adds to sums in memory.

    Parameters
    ----------
    sums
        In any order in which each waits for none shortly before.
    places
        Of each vector: from which pointer it is loaded, and bytes from there, a multiple of 8.
    pointers
        How many there are.

    Returns
    -------
    tuple or None
        Its arguments are a pointer to the sums, vectors of four float32, and the others. None
        where vectors exceed the registers.
    """
    totals = sorted({each.total for each in sums})
    texts = [_Text(order, places, totals) for order in (_by_factor(sums), sums)]
    found = [(cycles, number) for number, text in enumerate(texts) if (cycles := text.cycles())]
    if not found:
        return None
    text = texts[min(found)[1]]
    vector, counts = "<4 x float>", (len(totals), _WORDS, text.taken)
    kinds = [vector] * counts[0] + ["i64"] * _WORDS + [vector] * text.taken
    outputs = ["=&w"] * counts[0] + ["=&r"] * _WORDS + ["=&w"] * text.taken
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
    # LLVM's instruction scheduler takes what assembly accesses from its constraints alone: without
    # the last one it moves stores of what is read here, as of a panel just packed, behind it
    constraints = ",".join([*outputs, *inputs, "~{memory}"])
    lines.append(
        f'  %all = call {{{", ".join(kinds)}}} asm "{code}", "{constraints}"'
        f"({', '.join(given)}) nounwind willreturn noduplicate memory(read)"
    )
    for number, total in enumerate(totals):
        lines.append(f"  %new{total} = extractvalue {{{', '.join(kinds)}}} %all, {number}")
        lines.append(f"  store {vector} %new{total}, ptr %at{total}, align 16")
    return name, "\n".join([*lines, "  ret i32 0", "}", ""])
