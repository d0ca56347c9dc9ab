"""Shared memory of products on GPUs: no access of a warp needs a bank twice.

Counted from the printed kernels: the index of every access is evaluated for each lane. Accesses of
16 bytes are served a quarter of a warp at a time. Its 8 lanes may name the same 16 bytes, or others
in other groups of four banks. There are 8 such groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.cuda import SM_90, default_kernel, source_of
from tvmconv.costs.cuda.blocks import tile_of

QUARTER, GROUPS = 8, 8
# bytes
WORD = 16
TILES = [(128, 128, 16), (64, 128, 32), (96, 64, 32), (64, 64, 32), (32, 64, 32)]
KINDS = {
    "winograd": ("mb8ic96ih28oc128kh3ph1+bias+relu", {"mh": 4, "mw": 4, "threads": 64}),
    "im2col": ("mb8ic96ih28oc128kh3ph1+bias+relu", {"split": 1}),
    "implicit_gemm": ("mb8ic96ih28oc128kh1+bias+relu", {"slice": "channels", "split": 1}),
}
CASES = [
    pytest.param(
        *(kind, *KINDS[kind], *tile),
        # the larger and the smaller tiles are tested
        marks=[pytest.mark.slow] * (kind != "implicit_gemm" and tile in TILES[1:4:2]),
    )
    for kind in KINDS
    for tile in TILES
]
# values of single pixels are stored by fours
GATHERED = {"slice": "channels", "split": 1}
CASES.append(("implicit_gemm", "mb8ic96ih28oc32kh3ph1+bias+add+relu", GATHERED, *TILES[-1]))


def begins(text: str) -> dict[str, str]:
    """Where double buffers of ``float4`` begin, in bytes, in the first iteration."""
    stores = re.findall(r"^ *places_ptr\[(\d+)\] = (.*);", text, re.MULTILINE)
    places = dict(reversed(stores))
    turning = re.findall(r"float4\* (\w+) = .*tvmconv_turned\(\w+, places_ptr\[(\d+)\]", text)
    return {name: places[number] for name, number in turning}


def indices(text: str) -> Iterator[str]:
    """The text in the brackets after the names of shared arrays of ``float4``."""
    first = begins(text)
    for found in re.finditer(r"(\w+_shared_(?:ptr|turn\w*))(\[|\s*\+)", text):
        assert found[2] == "[", "an access that is no whole vector"
        start, depth = found.end(), 1
        end = start
        while depth:
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            end += 1
        yield f"({first.get(found[1], 0)}) / {WORD} + ({text[start : end - 1]})"


def served(expression: str, first: int, variables: dict[str, int]) -> int:
    """How often the fullest group of banks serves a quarter of a warp."""
    code = compile(expression.replace("/", "//").replace("(int)threadIdx.x", "thread"), "", "eval")
    places = {
        eval(code, {"__builtins__": {}}, {**variables, "thread": thread})
        for thread in range(first, first + QUARTER)
    }
    groups = [place % GROUPS for place in places]
    return max(map(groups.count, groups))


@pytest.mark.parametrize(("algorithm", "problem", "knobs", "m", "p", "k"), CASES)
def test_no_bank_is_needed_twice(algorithm, problem, knobs, m, p, k):
    kernel = default_kernel(problem, algorithm, SM_90, m=m, p=p, k=k, pipeline="double", **knobs)
    source = source_of(kernel)
    bodies = re.split(r'(?=extern "C" __global__)', source.text)
    (body,) = [b for b in bodies if re.search(r"__shared__", b)]
    (launch,) = [x for x in source.launches if re.search(rf"\b{x.kernel}\(", body)]
    declared = re.findall(r"__shared__ [^;]*? (float4?) \w+_shared_ptr\[", body)
    assert declared == ["float4", "float4"]
    text = "\n".join(line for line in body.splitlines() if "__shared__" not in line)
    expressions = set(indices(text))
    # copies of both operands in and in again, and their values of a slice, at least; columns by
    # fours are read in loops
    assert len(expressions) >= 3 * k // tile_of(kernel.config).share
    names = re.findall(r"for \(int (\w+) = 0", text)
    for expression in expressions:
        for first in range(0, launch.block[0], QUARTER):
            assert served(expression, first, dict.fromkeys(names, 1)) == 1, expression


def test_strided_lanes_are_found():
    assert served("((int)threadIdx.x) * 2", 0, {}) == 2
    assert served("((int)threadIdx.x) / 8", 0, {}) == 1
