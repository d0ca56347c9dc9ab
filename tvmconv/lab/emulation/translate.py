"""CUDA C++ of TVM, rewritten to the C++ that ``c/cuda.h`` makes executable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tvmconv.core.errors import ArtifactError

HEADER = Path(__file__).parent / "c/cuda.h"
_KERNEL = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^)]*)\)\s*([;{])'
)
_POINTER = re.compile(r"((?:const\s+)?\w+(?: \w+)*?)\s*\*\s*(?:__restrict__\s*)?(\w+)")
_SHARED = re.compile(r"__shared__ (alignas\(\d+\) )?([\w ]+?) (\w+)\[(\d+)\];")
_OF_LAUNCH = re.compile(r"extern __shared__ (?:alignas\(\d+\) )?([\w ]+?) (\w+)\[\];")
# the start of a double buffer (tvmconv/tir/cuda/double_buffers.py) or element (tap_tables.py)
_BEGINS = re.compile(
    r"\w+\* (\w+) = \(\(\w+\*\)\(\(void\*\)(tvmconv_(?:turned|tap<[^>]+>)\(.+\))\)\);"
)
_TABLE = re.compile(r"^static __(?:constant|device)__ const .+;\n", re.M)
_LOCAL = re.compile(r"^(\s+(?:alignas\(\d+\) )?(?:float|int|uint|half)\w* (\w+)\[\d+\];)", re.M)


@dataclass(frozen=True)
class Translation:
    """C++ for the host, with each kernel's names of parameters, in order.

    The source is one file that includes the header by name.
    """

    text: str
    kernels: dict[str, tuple[str, ...]]


def translate(source: str) -> Translation:
    """Rewrite all kernels (``extern "C" __global__``) of a source of TVM's code generator.

    Raises :class:`ArtifactError` if it has no kernel.
    """
    first = source.find('extern "C" __global__')
    if first < 0:
        raise ArtifactError('the CUDA source has no kernel (extern "C" __global__)')
    kernels, entries = {}, []
    for name, parameters, ending in _KERNEL.findall(source):
        if ending == ";":
            continue
        declared = [part.strip() for part in parameters.split(",") if part.strip()]
        kernels[name] = tuple(re.split(r"[\s*]+", part)[-1] for part in declared)
        values = ", ".join(_value(part, place) for place, part in enumerate(declared))
        entries.append(f'  {{"{name}", [](void **a) {{ {name}({values}); }}, {len(declared)}}},')
    body = _KERNEL.sub(_signature, source[first:])
    body = _OF_LAUNCH.sub(r'auto \2 = emulation::shared_of_launch<\1>("\2");', body)
    body = _SHARED.sub(
        r"\1static \2 \3_memory[\4]; static long \3_block; "
        r'auto \3 = emulation::shared(\3_memory, \3_block, "\3");',
        body,
    )
    body = _BEGINS.sub(r"auto \1 = \2;", body)
    body = _LOCAL.sub(r"\1 emulation::poison(\2);", body)
    table = "\n".join(["const emulation::Entry emulation::entries[] = {", *entries, "  {}};"])
    constants = "".join(_TABLE.findall(source[:first]))
    return Translation(f'#include "{HEADER.name}"\n{constants}{body}\n{table}\n', kernels)


def _value(parameter: str, place: int) -> str:
    """How a kernel's parameter is read from the array of pointers of a launch."""
    if pointer := _POINTER.fullmatch(parameter):
        return f'emulation::argument<{pointer[1]}>(a[{place}], "{pointer[2]}")'
    kind = parameter.rpartition(" ")[0]
    return f"*({kind} *)a[{place}]"


def _signature(match: re.Match[str]) -> str:
    """A kernel's head with checked pointers."""
    pointers = _POINTER.sub(r"emulation::Pointer<\1> \2", match[2])
    return f"static void {match[1]}({pointers}){match[3]}"
