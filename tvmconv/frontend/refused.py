"""Why operators are refused, and what to do about it."""

from __future__ import annotations

from tvmconv.core.errors import ModelError
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.operators import FOLDED

_REMEDY = "replace it with supported operators, or cut the model before it"
_RANDOM = ("it draws random numbers", "pass the numbers as an input")
_STRINGS = ("it works on strings, and tensors hold numbers only", "do this step outside the model")
_SEQUENCES = (
    "it works on sequences, and values are tensors only",
    "export the model with tensors of fixed shapes",
)
_OPTIONAL = (
    "it works on optional values, and values are tensors only",
    "export the model without optional inputs and outputs",
)
# operator -> reason and remedy; an operator that is not listed may be supported later
REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
         "RandomUniformLike"),
        _RANDOM,
    ),
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), _STRINGS
    ),
    **dict.fromkeys(
        ("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
         "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"),
        _SEQUENCES,
    ),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), _OPTIONAL),
    "ImageDecoder": ("it decodes image files", "decode them outside the model"),
}  # fmt: skip


def reason_of(op: str) -> tuple[str, str]:
    """Why an operator that cannot be imported is refused, and the remedy."""
    return REFUSED.get(op, ("this operator is not supported", _REMEDY))


def refusal(node: OnnxNode) -> ModelError:
    """The error of a node whose operator cannot be imported."""
    if node.op == "Dropout":
        return node.error(
            "it is in training mode, in which it draws random numbers",
            "export the model in inference mode",
        )
    if node.op in FOLDED:
        return node.error(
            "its operands are computed at run time, and it is supported with constants only",
            "simplify the model, or cut it before this node",
        )
    return node.error(*reason_of(node.op))
