"""Traces of schedule primitives, which MetaSchedule finds: read with limits, never trusted.

A trace is a JSON list of two lists. The first has the instructions, each with its name, inputs,
attributes and outputs. The second has the decision of each sampling instruction, with the place of
the instruction. Only instructions of :data:`INSTRUCTIONS` are read: they rearrange loops and
buffers, and TVM checks that each keeps the result.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .errors import ConfigError
from .plain_data import parse

# Instruction -> forms of its inputs, attributes and outputs. Each operand is one letter. b is a
# block, l a loop, t a factor of a loop, v another sampled number. i is an integer, n nothing, s a
# text, a a list of numbers, c a list of blocks, which may be empty. TVM reads operands of another
# form as if they had the expected one.
INSTRUCTIONS = {
    "EnterPostproc": ("", "", ""),
    "GetSBlock": ("", "ss", "b"),
    "GetLoops": ("b", "", "l*"),
    "GetChildBlocks": ("[bl]", "", "b*"),
    "GetProducers": ("b", "", "b*"),
    "GetConsumers": ("b", "", "b*"),
    "GetOutputBlocks": ("b", "", "b*"),
    "SampleCategorical": ("", "aa", "v"),
    "SamplePerfectTile": ("l", "ii", "v+"),
    "SampleComputeLocation": ("b", "", "l"),
    "Fuse": ("l+", "i", "l"),
    "Split": ("l[tin]+", "ii", "l+"),
    "Reorder": ("l+", "", ""),
    "AddUnitLoop": ("[bl]", "", "l"),
    "Parallel": ("l", "", ""),
    "Vectorize": ("l", "", ""),
    "Unroll": ("l", "", ""),
    "CacheRead": ("bc", "is", "b"),
    "CacheWrite": ("bc", "is", "b"),
    "ComputeAt": ("bl", "ii", ""),
    "ReverseComputeAt": ("bl", "ii", ""),
    "ComputeInline": ("b", "", ""),
    "ReverseComputeInline": ("b", "", ""),
    "DecomposeReduction": ("bl", "", "b"),
    "RFactor": ("l", "i", "b"),
    "Annotate": ("[bl][tvis]", "s", ""),
    "Unannotate": ("[bl]", "s", ""),
}
# other pragmas may carry code
_ANNOTATIONS = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")
_SEARCH_ANNOTATIONS = "meta_schedule."
_NAME = re.compile(r"[blv]\d{1,5}")
_MAX_INSTRUCTIONS = 1024
_MAX_OUTER = 64
_MAX_TEXT = 100
_MAX_INTEGER = 1 << 16


def trace_text(data: Any) -> str:
    """The canonical text of a trace.

    Raises ``ConfigError`` if an instruction is unknown, or the data have another form.
    """
    _check(data)
    return json.dumps(data, separators=(",", ":"))


def read_trace(text: str) -> list[Any]:
    """The data of a trace's text; raises ``ConfigError`` as :func:`trace_text`."""
    try:
        data = parse(text)
    except ValueError as error:
        raise ConfigError(f"a trace is not JSON: {str(error)[:_MAX_TEXT]}") from None
    _check(data)
    return list(data)


def _check(data: Any) -> None:
    match data:
        case [list() as instructions, list() as decisions]:
            pass
        case _:
            raise ConfigError("a trace must be a list of instructions and a list of decisions")
    if len(instructions) > _MAX_INSTRUCTIONS:
        raise ConfigError(
            f"a trace has {len(instructions)} instructions. Expected at most {_MAX_INSTRUCTIONS}."
        )
    reader = _Reader()
    for place, entry in enumerate(instructions):
        reader.take(place, entry)
    for decision in decisions:
        reader.decide(decision)
    if reader.undecided:
        raise ConfigError("a sampling instruction of a trace has no decision of its form")


class _Reader:
    """Checks instructions and decisions in order: TVM trusts some operands, and would crash."""

    def __init__(self) -> None:
        # by name, the form of what an instruction defined
        self.forms: dict[str, str] = {}
        self.undecided: dict[int, tuple[str, list[Any], int]] = {}

    def take(self, place: int, entry: Any) -> None:
        """Check one instruction."""
        match entry:
            case [str() as kind, list() as inputs, list() as attributes, list() as outputs]:
                pass
            case _:
                raise ConfigError(
                    "an instruction of a trace must be a name, inputs, attributes and outputs"
                )
        if kind not in INSTRUCTIONS:
            raise ConfigError(
                f"a trace has the instruction {kind[:_MAX_TEXT]!r}, which is not allowed"
            )
        form = INSTRUCTIONS[kind]
        found = ["".join(map(self._form, operands)) for operands in (inputs, attributes)]
        self._define(kind, outputs)
        found.append("".join(str(name)[0] for name in outputs))
        if not all(re.fullmatch(*pair) for pair in zip(form, found, strict=True)):
            raise ConfigError(f"the operands of a trace's instruction {kind} have other forms")
        if kind in ("Annotate", "Unannotate"):
            key = str(attributes[0]) if attributes else ""
            if key not in _ANNOTATIONS and not key.startswith(_SEARCH_ANNOTATIONS):
                raise ConfigError(f"a trace has the annotation {key!r}, which is not allowed")
        if kind == "Split" and any(isinstance(f, int) and f < 1 for f in inputs):
            raise ConfigError("a trace splits a loop by a factor below 1")
        if kind == "Split" and attributes[1]:
            # without its test, the last iterations leave the buffers
            raise ConfigError("a trace splits a loop without a test of its end")
        if kind.startswith("Cache") and attributes != [attributes[0], "global"]:
            # buffers of other scopes are on the stack
            raise ConfigError(f"a trace caches in {attributes[1]!r}. Expected 'global'.")
        if kind.startswith("Sample"):
            self.undecided[place] = (kind, attributes, len(outputs))

    def decide(self, decision: Any) -> None:
        """Check one decision."""
        match decision:
            case [int() as place, value] if place in self.undecided:
                kind, attributes, count = self.undecided.pop(place)
            case _:
                raise ConfigError("a decision of a trace belongs to no instruction that samples")
        match kind, attributes, value:
            case "SamplePerfectTile", _, list():
                right = len(value) == count and all(map(_is_positive, value))
            case "SampleCategorical", [list() as listed, *_], int():
                right = 0 <= value < len(listed)
            case "SampleComputeLocation", _, int():
                right = -2 <= value < _MAX_OUTER
            case _:
                right = False
        if not right:
            raise ConfigError(f"a decision of {kind} in a trace is out of range")

    def _form(self, value: Any) -> str:
        """The letter of an operand."""
        if value is None or value == "None":
            return "n"
        if isinstance(value, str):
            short = len(value) <= _MAX_TEXT and value.isprintable()
            return self.forms.get(value, "s" if short else "?")
        if isinstance(value, int):
            return "i" if -1 <= value < _MAX_INTEGER else "?"
        if not isinstance(value, list):
            return "?"
        if all(isinstance(name, str) and self.forms.get(name) == "b" for name in value):
            return "c"
        return "a" if all(map(_is_number, value)) else "?"

    def _define(self, kind: str, outputs: list[Any]) -> None:
        for name in outputs:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name in self.forms:
                raise ConfigError(f"an output of {kind} in a trace is not a new name")
            self.forms[name] = "t" if kind == "SamplePerfectTile" else name[0]


def _is_positive(value: Any) -> bool:
    return type(value) is int and 0 < value < _MAX_INTEGER


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value < _MAX_INTEGER
