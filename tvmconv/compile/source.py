"""A program as C: one line for each call, and the tables that describe the model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvmconv.compile.c_text import Strings, braced, comment, identifier, whole
from tvmconv.compile.functions import functions
from tvmconv.compile.gpu import GpuCode, gpu_definitions
from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.program.program import Call, Program

# the symbol of constants that are linked into the model
CONSTANTS = "tvmconv_constants"
# numpy's name -> enumerator of tvmconv_dtype
_TYPES = {
    "float32": "TVMCONV_FLOAT32",
    "float64": "TVMCONV_FLOAT64",
    "float16": "TVMCONV_FLOAT16",
    "bfloat16": "TVMCONV_BFLOAT16",
    "int8": "TVMCONV_INT8",
    "int16": "TVMCONV_INT16",
    "int32": "TVMCONV_INT32",
    "int64": "TVMCONV_INT64",
    "uint8": "TVMCONV_UINT8",
    "uint16": "TVMCONV_UINT16",
    "uint32": "TVMCONV_UINT32",
    "uint64": "TVMCONV_UINT64",
    "bool": "TVMCONV_BOOL",
    "float8_e4m3fn": "TVMCONV_FLOAT8_E4M3FN",
    "float8_e4m3fnuz": "TVMCONV_FLOAT8_E4M3FNUZ",
    "float8_e5m2": "TVMCONV_FLOAT8_E5M2",
    "float8_e5m2fnuz": "TVMCONV_FLOAT8_E5M2FNUZ",
    "float8_e8m0fnu": "TVMCONV_FLOAT8_E8M0FNU",
    "float4_e2m1fn": "TVMCONV_FLOAT4_E2M1FN",
    "int4": "TVMCONV_INT4",
    "uint4": "TVMCONV_UINT4",
    "int2": "TVMCONV_INT2",
    "uint2": "TVMCONV_UINT2",
}


@dataclass(frozen=True)
class Facts:
    """Facts about a model in the C code besides its program.

    ``features`` are CPU flags that the kernels may use, ``threads`` the number that the kernels
    were chosen for. ``vector_bits`` is the exact length of scalable vectors, or 0 for any.
    """

    name: str
    version: str
    target: str
    features: tuple[str, ...]
    threads: int
    vector_bits: int = 0


def program_source(
    program: Program,
    facts: Facts,
    weights_sha256: str | None = None,
    gpu: GpuCode | None = None,
) -> str:
    """``model.c``: C99 that ``runtime.c``, the kernels and the constants are linked with.

    ``weights_sha256`` is the hexadecimal hash of constants in a separate file or in the caller's
    memory; None if they are linked under the symbol :data:`CONSTANTS`.
    """
    strings = Strings()
    calls = [call for each in program.programs for call in each.all_calls()]
    tables, run = [], []
    for index, each in enumerate(program.programs):
        prefix = _prefix(index)
        tables += [
            *_tensors(f"{prefix}input", each.inputs, strings),
            *_tensors(f"{prefix}output", each.outputs, strings),
            *_varying(prefix, each.outputs),
            *_batched(prefix, each.inputs),
            *_layers(prefix, tuple(each.all_calls()), strings),
        ]
        run += functions(each, gpu is not None, strings, prefix)
    separate = weights_sha256 is not None
    tables += _programs(len(program.programs))
    for index in range(len(program.programs)):
        tables += _description(program, index, facts, strings, separate, gpu is not None)
    tables += _program(program, facts, strings, weights_sha256)
    lines = [
        comment(f"{facts.name}: compiled by tvmconv {facts.version} for {facts.target}"),
        "#include <string.h>",
        "",
        *(["#define TVMCONV_CUDA 1"] if gpu else []),
        '#include "program.h"',
        "",
        *(gpu_definitions(gpu, program) if gpu else _declarations(calls)),
        *strings.definitions,
        *run,
        "",
        *tables,
    ]
    return "\n".join(lines) + "\n"


def _prefix(index: int) -> str:
    """The start of the names of a program's functions and tables."""
    return f"p{index}_" if index else ""


def _type(tensor: TensorInfo) -> str:
    try:
        return _TYPES[tensor.dtype]
    except KeyError:
        raise ModelError(
            f"unsupported type {tensor.dtype} of the input or output {tensor.name!r}; supported: "
            f"{', '.join(_TYPES)}"
        ) from None


def _declarations(calls: Iterable[Call]) -> list[str]:
    """Prototypes of the kernels, in the order of their first calls."""
    parameters = {call.record.kernel: len(call.operands) for call in calls if call.record.kernel}
    if not parameters:
        return []
    return [
        "/* The kernels, each an object file; results are their last parameters. */",
        *(f"int32_t {name}({', '.join(['void *'] * n)});" for name, n in parameters.items()),
        "",
    ]


def _tensors(kind: str, tensors: Sequence[TensorInfo], strings: Strings) -> list[str]:
    shapes, rows = [], []
    for index, tensor in enumerate(tensors):
        shape = "NULL"
        if tensor.shape:
            shape = f"{kind}_shape_{index}"
            extents = braced(map(whole, tensor.shape))
            shapes.append(f"static const int64_t {shape}[] = {extents};")
        cells = (strings(tensor.name), _type(tensor), str(len(tensor.shape)), shape)
        rows.append(f"    {braced((*cells, whole(tensor.bytes)))},")
    return [*shapes, *_table("tvmconv_tensor", f"{kind}s", rows)]


def _varying(prefix: str, outputs: Iterable[TensorInfo]) -> list[str]:
    """The axis of each output whose extent depends on the data, if there is one."""
    axes = [-1 if output.varying is None else output.varying for output in outputs]
    if max(axes, default=-1) < 0:
        return []
    return [f"static const int32_t {prefix}varying_axes[] = {braced(map(str, axes))};"]


def _batched(prefix: str, inputs: Sequence[TensorInfo]) -> list[str]:
    """Whether each input holds the images of a batch, if the model serves any batch."""
    if not any(info.batched for info in inputs):
        return []
    flags = braced(str(int(info.batched)) for info in inputs)
    return [f"static const int32_t {prefix}batched[] = {flags};"]


def _layers(prefix: str, calls: Iterable[Call], strings: Strings) -> list[str]:
    rows = []
    for call in calls:
        record = call.record
        texts = (record.layer, record.operator, call.algorithm, record.workload, record.kernel)
        numbers = (record.flops, record.bytes)
        rows.append(f"    {braced([*map(strings, texts), *map(whole, numbers)])},")
    return _table("tvmconv_layer", f"{prefix}layers", rows)


def _table(kind: str, name: str, rows: Sequence[str]) -> list[str]:
    return [f"static const {kind} {name}[] = {{", *rows, "};"] if rows else []


def _programs(count: int) -> list[str]:
    """The list of all descriptions, which each of them refers to."""
    names = [_description_name(index) for index in range(count)]
    listed = braced(f"&{name}" for name in names)
    return [
        "",
        *(f"static const tvmconv_description {name};" for name in names[1:]),
        f"static const tvmconv_description *const programs[] = {listed};",
    ]


def _description_name(index: int) -> str:
    return f"{_prefix(index)}description" if index else "tvmconv_this_description"


def _description(
    model: Program, index: int, facts: Facts, strings: Strings, separate: bool, on_gpu: bool
) -> list[str]:
    """The description of one program; the first one is the description of the model."""
    program, prefix = model.programs[index], _prefix(index)
    layers = tuple(program.all_calls())
    tables = {"inputs": program.inputs, "outputs": program.outputs, "layers": layers}
    fields = {
        "size": "sizeof(tvmconv_description)",
        **{f"{name[:-1]}_count": str(len(rows)) for name, rows in tables.items()},
        **{name: f"{prefix}{name}" if rows else "NULL" for name, rows in tables.items()},
        "name": strings(facts.name),
        "version": strings(facts.version),
        "target": strings(facts.target),
        "features": strings(" ".join(facts.features)),
        "arena_bytes": whole(program.arena_bytes),
        "workspace_bytes": whole(program.workspace_bytes),
        "weight_bytes": whole(model.constant_bytes),
        "threads": str(facts.threads),
        "separate_weights": str(int(separate)),
        "device": str(int(on_gpu)),
        "varying_axes": f"{prefix}varying_axes" if _varying("", program.outputs) else "NULL",
        "programs": "programs",
        "program_count": str(len(model.programs)),
        "batched": f"{prefix}batched" if _batched("", program.inputs) else "NULL",
    }
    linkage = "static const" if index else "const"
    return ["", *_struct(f"{linkage} tvmconv_description {_description_name(index)}", fields)]


def _program(
    program: Program, facts: Facts, strings: Strings, weights_sha256: str | None
) -> list[str]:
    linked = program.constant_bytes > 0 and weights_sha256 is None
    flags = braced([*map(strings, facts.features), "NULL"])
    runs = braced(f"{_prefix(index)}run" for index in range(len(program.programs)))
    steps = _steps(program)
    fields = {
        "runs": "runs",
        "features": "features",
        "vector_bits": str(facts.vector_bits),
        "constants": CONSTANTS if linked else "NULL",
        "weights_sha256": strings(weights_sha256 or ""),
        "steps": "steps" if steps else "NULL",
    }
    return [
        "",
        *([f"extern const char {CONSTANTS}[];"] if linked else []),
        f"static const char *const features[] = {flags};",
        f"static int32_t (*const runs[])(tvmconv_frame *frame) = {runs};",
        *steps,
        *_struct("const tvmconv_program tvmconv_this_program", fields),
        "",
        "/* The model's own name, for programs that are linked with several. */",
        "TVMCONV_EXPORTED",
        f"const tvmconv_model tvmconv_model_{identifier(facts.name)} = TVMCONV_MODEL;",
    ]


def _steps(program: Program) -> list[str]:
    """The functions that make one call of a program, if the model serves any batch."""
    if not any(info.batched for info in program.inputs):
        return []
    rows = [
        f"    {braced((f'{prefix}step', str(len(each.calls)), f'{prefix}heavy'))},"
        for each, prefix in zip(program.programs, map(_prefix, itertools.count()), strict=False)
    ]
    return _table("tvmconv_steps", "steps", rows)


def _struct(declarator: str, fields: dict[str, str]) -> list[str]:
    values = (f"    .{name} = {value}," for name, value in fields.items())
    return [f"{declarator} = {{", *values, "};"]
