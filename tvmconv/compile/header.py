"""The header of one model: its name in C, and the sizes that a caller needs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmconv.compile.c_text import braced, comment, identifier
from tvmconv.core.tensor import TensorInfo


def model_header(
    name: str,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    *,
    layers: int,
    arena_bytes: int,
    weight_bytes: int,
) -> str:
    """``model.h`` for programs that are linked with a model, or want its sizes as constants.

    ``name`` becomes ``tvmconv_model_<identifier>`` and the prefix of macros.
    """
    own = identifier(name)
    prefix = own.upper() if own[0].isalpha() else f"MODEL_{own.upper()}"
    macros = [
        *_tensors(f"{prefix}_INPUT", inputs),
        *_tensors(f"{prefix}_OUTPUT", outputs),
        f"#define {prefix}_LAYER_COUNT {layers}",
        f"#define {prefix}_ARENA_BYTES {arena_bytes}",
        f"#define {prefix}_WEIGHT_BYTES {weight_bytes}",
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
