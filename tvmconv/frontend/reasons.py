"""The reasons for which operators are refused by their names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Reason:
    """Why a kind of operators is refused, and what a user can do."""

    kind: str
    text: str
    remedy: str


_SEQUENCE = Reason(
    "sequences", "sequence values are not supported", "Export the model with tensors in their place"
)
_OPTIONAL = Reason(
    "optional values",
    "optional values are not supported",
    "Export the model with tensors in their place",
)
_STRINGS = Reason(
    "strings", "tensors of strings are not supported", "Compute strings outside of the model"
)
_RANDOM = Reason(
    "random values",
    "ONNX does not define the values of random operators",
    "Make the random values an input of the model",
)
_IMAGES = Reason(
    "files of images",
    "models cannot decode files of images",
    "Decode the image before the model runs",
)
_TRAINING = Reason(
    "training", "operators for training are not supported", "Export the model for inference"
)
_CLASSIC = Reason(
    "classical machine learning",
    "operators of the domain 'ai.onnx.ml' are not supported",
    "Run this part of the model by onnxruntime",
)
_BLOCKED = Reason(
    "blocked layouts of onnxruntime",
    "onnxruntime writes such operators for one kind of CPU",
    "Save the model with the optimization level ORT_ENABLE_EXTENDED",
)
_FOREIGN = Reason(
    "operators of other domains",
    "this operator is not part of ONNX and is not supported",
    "Export the model with standard ONNX operators",
)
_OTHER = Reason(
    "other operators",
    "this operator is not supported",
    "Replace it with supported operators",
)
_DOMAINS = {
    "ai.onnx.ml": _CLASSIC,
    "ai.onnx.preview.training": _TRAINING,
    "ai.onnx.training": _TRAINING,
    "com.microsoft.nchwc": _BLOCKED,
}
_NAMED = {
    _SEQUENCE: (
        "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
        "SequenceInsert SequenceLength SequenceMap SplitToSequence"
    ),
    _OPTIONAL: "Optional OptionalGetElement OptionalHasElement",
    _STRINGS: "RegexFullMatch StringConcat StringNormalizer StringSplit",
    _RANDOM: (
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
    ),
    _IMAGES: "ImageDecoder",
}


@cache
def _by_name() -> dict[str, Reason]:
    return {name: reason for reason, names in _NAMED.items() for name in names.split()}


def reason_of(domain: str, op: str) -> Reason:
    """The reason for which an operator that the reader does not know is refused."""
    if domain in ("", "ai.onnx"):
        return _by_name().get(op, _OTHER)
    return _DOMAINS.get(domain, _FOREIGN)
