"""The header of one model: its name in C, and the sizes that a caller needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvmconv.compile.c_text import braced, comment, identifier
from tvmconv.core.tensor import TensorInfo


@dataclass(frozen=True)
class ModelShapes:
    """The tensors of a program, its number of layers and its activation memory."""

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    layers: int
    arena_bytes: int


def model_header(name: str, programs: Sequence[ModelShapes], *, weight_bytes: int) -> str:
    """``model.h`` for programs that are linked with a model, or want its sizes as constants.

    ``name`` becomes ``tvmconv_model_<identifier>`` and the prefix of macros. Macros without a
    number are for the first one of several input shapes.
    """
    own = identifier(name)
    prefix = own.upper() if own[0].isalpha() else f"MODEL_{own.upper()}"
    macros = [
        *_program(prefix, programs[0]),
        f"#define {prefix}_WEIGHT_BYTES {weight_bytes}",
        f"#define {prefix}_PROGRAM_COUNT {len(programs)}",
    ]
    for index, program in enumerate(programs[1:], 1):
        macros += ["", *_program(f"{prefix}_PROGRAM_{index}", program)]
    lines = [
        comment(f"{name}: the model's own name, and its sizes."),
        f"#ifndef TVMCONV_MODEL_{prefix}_H",
        f"#define TVMCONV_MODEL_{prefix}_H",
        "",
        '#include "tvmconv.h"',
        "",
        *macros,
        "",
        "#ifdef __cplusplus",
        'extern "C"',
        "#else",
        "extern",
        "#endif",
        f"const tvmconv_model tvmconv_model_{own};",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _program(prefix: str, program: ModelShapes) -> list[str]:
    return [
        *_tensors(f"{prefix}_INPUT", program.inputs),
        *_tensors(f"{prefix}_OUTPUT", program.outputs),
        f"#define {prefix}_LAYER_COUNT {program.layers}",
        f"#define {prefix}_ARENA_BYTES {program.arena_bytes}",
    ]


def _tensors(prefix: str, tensors: Sequence[TensorInfo]) -> list[str]:
    lines = [f"#define {prefix}_COUNT {len(tensors)}"]
    for index, tensor in enumerate(tensors):
        own = f"{prefix}_{index}"
        lines += [
            comment(str(tensor)),
            f"#define {own}_RANK {len(tensor.shape)}",
            f"#define {own}_SHAPE {braced(map(str, tensor.shape))}",
            f"#define {own}_ELEMENTS {prod(tensor.shape)}",
            f"#define {own}_BYTES {tensor.bytes}",
        ]
    return lines
