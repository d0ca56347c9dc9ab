"""A program as C: one line for each call, and the tables that describe the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tvmconv.compile.c_text import Strings, braced, comment, identifier, whole
from tvmconv.compile.functions import functions
from tvmconv.compile.gpu import GpuCode, gpu_definitions
from tvmconv.core.decision import KernelCall
from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.program.program import Call, Program

# constants with fewer bytes between them are mapped together
_GAP = 1 << 18
# the description of a model with one target, or of all targets
_MAIN = "tvmconv_this_description"
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
    others: Sequence[tuple[Program, Facts]] = (),
) -> str:
    """``model.c``: C99 that ``runtime.c``, the kernels and the constants are linked with.

    ``weights_sha256`` is the hexadecimal hash of constants in a separate file or in the caller's
    memory; None if they are linked under the symbol :data:`CONSTANTS`. ``others`` are the programs
    of further targets, whose operands are the constants of ``program``.
    """
    strings = Strings()
    targets = [(program, facts), *others]
    calls = [c for each, _ in targets for one in each.programs for c in one.all_calls()]
    model = _Model(strings, weights_sha256 is not None, gpu is not None, program.constant_bytes)
    tables: list[str] = []
    run: list[str] = []
    rows: list[str] = []
    for number, (each, about) in enumerate(targets):
        start = f"t{number}_" if others else ""
        for index, one in enumerate(each.programs):
            run += functions(one, gpu is not None, strings, _prefix(index, start))
        tables += model.descriptions(each.programs, about, start)
        lines, row = _target(each, about, strings, start)
        tables += lines
        rows.append(row)
    if others:
        groups = zip(*(each.programs for each, _ in targets), strict=True)
        joined = _joined_facts([about for _, about in targets])
        tables += model.descriptions([_joined(group) for group in groups], joined)
    tables += _program(program, facts.name, rows, strings, weights_sha256)
    named = ", ".join(about.target for _, about in targets)
    lines = [
        comment(f"{facts.name}: compiled by tvmconv {facts.version} for {named}"),
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


def _prefix(index: int, start: str = "") -> str:
    """The start of the names of a program's functions and tables."""
    return f"{start}p{index}_" if index else start


def _joined(programs: Sequence[Program]) -> Program:
    """The description of one shape for all targets: room for the layers of any of them."""
    first, counts = programs[0], [sum(1 for _ in each.all_calls()) for each in programs]
    nameless = Call(KernelCall("", "", ""), ())
    return replace(
        first,
        calls=(*first.calls, *[nameless] * (max(counts) - counts[0])),
        arena_bytes=max(each.arena_bytes for each in programs),
        workspace_bytes=max(each.workspace_bytes for each in programs),
    )


def _joined_facts(facts: Sequence[Facts]) -> Facts:
    """The names of all targets, and the features that all of them require."""
    common = set.intersection(*(set(each.features) for each in facts))
    return replace(
        facts[0],
        target=", ".join(each.target for each in facts),
        features=tuple(sorted(common)),
    )


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


@dataclass(frozen=True)
class _Model:
    """Tables that describe programs, and the facts that are equal in all of them."""

    strings: Strings
    separate: bool
    on_gpu: bool
    constant_bytes: int

    def descriptions(
        self, programs: Sequence[Program], facts: Facts, start: str = ""
    ) -> Iterator[str]:
        """The tables of the programs for one target; names begin with ``start``."""
        for index, each in enumerate(programs):
            prefix = _prefix(index, start)
            yield from _tensors(f"{prefix}input", each.inputs, self.strings)
            yield from _tensors(f"{prefix}output", each.outputs, self.strings)
            yield from _varying(prefix, each.outputs)
            yield from _batched(prefix, each.inputs)
            yield from _layers(prefix, tuple(each.all_calls()), self.strings)
        names = [_description_name(index, start) for index in range(len(programs))]
        listed = braced(f"&{name}" for name in names)
        yield ""
        for name in names:
            if name != _MAIN:
                yield f"static const tvmconv_description {name};"
        yield f"static const tvmconv_description *const {start}programs[] = {listed};"
        for index, name in enumerate(names):
            fields = self._fields(programs[index], facts, start, _prefix(index, start))
            fields["program_count"] = str(len(programs))
            linkage = "const" if name == _MAIN else "static const"
            yield ""
            yield from _struct(f"{linkage} tvmconv_description {name}", fields)

    def _fields(self, program: Program, facts: Facts, start: str, prefix: str) -> dict[str, str]:
        layers = tuple(program.all_calls())
        tables = {"inputs": program.inputs, "outputs": program.outputs, "layers": layers}
        return {
            "size": "sizeof(tvmconv_description)",
            **{f"{name[:-1]}_count": str(len(rows)) for name, rows in tables.items()},
            **{name: f"{prefix}{name}" if rows else "NULL" for name, rows in tables.items()},
            "name": self.strings(facts.name),
            "version": self.strings(facts.version),
            "target": self.strings(facts.target),
            "features": self.strings(" ".join(facts.features)),
            "arena_bytes": whole(program.arena_bytes),
            "workspace_bytes": whole(program.workspace_bytes),
            "weight_bytes": whole(self.constant_bytes),
            "threads": str(facts.threads),
            "separate_weights": str(int(self.separate)),
            "device": str(int(self.on_gpu)),
            "varying_axes": f"{prefix}varying_axes" if _varying("", program.outputs) else "NULL",
            "programs": f"{start}programs",
            "batched": f"{prefix}batched" if _batched("", program.inputs) else "NULL",
        }


def _description_name(index: int, start: str) -> str:
    return f"{_prefix(index, start)}description" if index or start else _MAIN


def _target(program: Program, facts: Facts, strings: Strings, start: str) -> tuple[list[str], str]:
    """The tables of one target, and its row in the table of targets."""
    flags = braced([*map(strings, facts.features), "NULL"])
    runs = braced(f"{_prefix(index, start)}run" for index in range(len(program.programs)))
    steps = _steps(program, start)
    parts = braced(braced(map(whole, part)) for part in (*_parts(program), (0, 0)))
    lines = [
        "",
        f"static const char *const {start}features[] = {flags};",
        f"static int32_t (*const {start}runs[])(tvmconv_frame *frame) = {runs};",
        *steps,
        *([f"static const uint64_t {start}constants[][2] = {parts};"] if start else []),
    ]
    fields = {
        "description": f"&{_description_name(0, start)}",
        "runs": f"{start}runs",
        "features": f"{start}features",
        "vector_bits": str(facts.vector_bits),
        "steps": f"{start}steps" if steps else "NULL",
        "constants": f"{start}constants" if start else "NULL",
    }
    return lines, braced(f".{name} = {value}" for name, value in fields.items())


def _parts(program: Program) -> list[tuple[int, int]]:
    """Starts and ends of the constants that programs read, with small gaps between them."""
    found: list[tuple[int, int]] = []
    used = [item for each in program.programs for item in each.used_constants().items()]
    for start, size in sorted(used):
        if found and start - found[-1][1] < _GAP:
            start, size = found[-1][0], max(found[-1][1], start + size) - found[-1][0]
            found.pop()
        found.append((start, start + size))
    return found


def _program(
    program: Program,
    name: str,
    targets: Sequence[str],
    strings: Strings,
    weights_sha256: str | None,
) -> list[str]:
    linked = program.constant_bytes > 0 and weights_sha256 is None
    fields = {
        "targets": "targets",
        "target_count": str(len(targets)),
        "constants": CONSTANTS if linked else "NULL",
        "weights_sha256": strings(weights_sha256 or ""),
    }
    return [
        "",
        *([f"extern const char {CONSTANTS}[];"] if linked else []),
        *_table("tvmconv_target", "targets", [f"    {row}," for row in targets]),
        *_struct("const tvmconv_program tvmconv_this_program", fields),
        "",
        "/* The model's own name, for programs that are linked with several. */",
        "TVMCONV_EXPORTED",
        f"const tvmconv_model tvmconv_model_{identifier(name)} = TVMCONV_MODEL;",
    ]


def _steps(program: Program, start: str) -> list[str]:
    """The functions that make one call of a program, if the model serves any batch."""
    if not any(info.batched for info in program.inputs):
        return []
    rows = []
    for index, each in enumerate(program.programs):
        prefix = _prefix(index, start)
        cells = (f"{prefix}step", str(len(each.calls)), f"{prefix}heavy")
        rows.append(f"    {braced(cells)},")
    return _table("tvmconv_steps", f"{start}steps", rows)


def _struct(declarator: str, fields: dict[str, str]) -> list[str]:
    values = (f"    .{name} = {value}," for name, value in fields.items())
    return [f"{declarator} = {{", *values, "};"]
