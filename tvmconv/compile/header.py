"""The header of one model: its name in C, and the sizes that a caller needs."""

from __future__ import annotations

from math import prod

from tvmconv.compile.c_text import braced, comment, identifier
from tvmconv.core.tensor import TensorInfo
from tvmconv.program.program import Program


def model_header(program: Program, name: str) -> str:
    """``model.h`` for programs that are linked with a model, or want its sizes as constants.

    Parameters
    ----------
    program
        The model's program.
    name
        The model's name, which becomes ``tvmconv_model_<identifier>`` and the prefix of macros.
    """
    own = identifier(name)
    prefix = own.upper() if own[0].isalpha() else f"MODEL_{own.upper()}"
    macros = [
        *_tensors(f"{prefix}_INPUT", program.inputs),
        *_tensors(f"{prefix}_OUTPUT", program.outputs),
        f"#define {prefix}_LAYER_COUNT {len(program.calls)}",
        f"#define {prefix}_ARENA_BYTES {program.arena_bytes}",
        f"#define {prefix}_WEIGHT_BYTES {program.constant_bytes}",
    ]
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


def _tensors(prefix: str, tensors: tuple[TensorInfo, ...]) -> list[str]:
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
