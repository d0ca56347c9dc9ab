"""Kernels as functions of C: the signature, the code inside, and what they ask of the linker."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tvm.script import tirx as T

from tests.assembly import Assembly, assembly
from tests.tir.rewrites import check
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring.operands import random_operands
from tvmconv.tir.general.c_functions import NATURAL, CFunctions
from tvmconv.tir.general.record_workspace import recorded
from tvmconv.tir.pipeline import c_calls, compile_function, packed_calls

MACHINE = resolve_machine("native", 1)
PARALLEL = resolve_machine("x86-64-v4", 2)
SMALL = Conv2dWorkload.parse("ic16ih6oc16kh3ph1")
# parallel loops on the thread that calls, and scratch memory that may only be freed as a stack
SERIAL = """
#include <stdint.h>
#include <stdlib.h>
typedef struct { void *sync; int num_task; } environment;
static int launch(int (*task)(int, environment *, void *), void *closure, int count) {
    environment alone = {0, 1};
    (void)count;
    return task(0, &alone, closure);
}
static void *blocks[64];
static uint64_t sizes[64];
int depth, misordered;
uint64_t used, most;
static void *allocate(int type, int id, uint64_t bytes, int code, int bits) {
    (void)type, (void)id, (void)code, (void)bits;
    sizes[depth] = bytes;
    used += bytes;
    most = used > most ? used : most;
    return blocks[depth++] = aligned_alloc(64, (bytes + 63) / 64 * 64);
}
static int release(int type, int id, void *block) {
    (void)type, (void)id;
    misordered += blocks[--depth] != block;
    used -= sizes[depth];
    free(block);
    return 0;
}
int (*__TVMBackendParallelLaunch)(int (*)(int, environment *, void *), void *, int) = launch;
void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = allocate;
int (*__TVMBackendFreeWorkspace)(int, int, void *) = release;
"""


def scheduled(problem, algorithm, machine=PARALLEL):
    return make_kernel(Conv2dWorkload.parse(problem), machine, algorithm).prim_func("kernel")


def symbols(function, machine, folder):
    """Symbol -> nm's letter, of the object code."""
    path = folder / "kernel.o"
    compile_function(function, machine, calls=c_calls).write_object(path)
    listed = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return {name: letter for letter, name in re.findall(r"(\w) (\S+)$", listed, re.MULTILINE)}


def test_the_object_needs_nothing_of_tvm_but_threads_and_memory(tmp_path):
    found = symbols(scheduled("ic32ih8oc32kh3ph1", "winograd"), PARALLEL, tmp_path)
    assert found["kernel"] == "T"
    ours = {name for name, letter in found.items() if letter in "TDBC"}
    assert ours == {"kernel"}
    backend = {name for name in found if "TVM" in name or "tvm" in name}
    assert backend == {
        "__TVMBackendParallelLaunch",
        "__TVMBackendAllocWorkspace",
        "__TVMBackendFreeWorkspace",
    }
    assert {found[name] for name in backend} == {"V"}


@pytest.mark.parametrize(
    ("problem", "algorithm"),
    [
        ("ic32ih8oc32kh3ph1", "direct"),
        ("ic32ih8oc32kh3ph1", "winograd"),
        ("ic32ih28oc32kh3ph1g32", "depthwise"),
    ],
)
def test_loops_are_those_of_the_packed_form(problem, algorithm):
    function = scheduled(problem, algorithm)
    packed, bare = loops(function, packed_calls), loops(function, c_calls)
    # copies of a function's end, which LLVM places after a loop, may look like one more
    assert packed
    assert not packed - bare
    assert sum((bare - packed).values()) <= 1


def loops(function, calls):
    """Innermost loops without names of labels and general registers and without stack offsets."""
    text = assembly(compile_function(function, PARALLEL, calls=calls)).text
    for pattern, name in (
        (r"\.L\w+", "L"),
        (r"-?\w*\(%rsp", "S(%rsp"),
        (r"%(r\w+|e[a-d]x|e[sd]i|ebp)\b", "%r"),
    ):
        text = re.sub(pattern, lambda found, name=name: name if name != "L" else found[0], text)
    bodies = Assembly(text, PARALLEL).loops()
    return Counter(tuple(re.sub(r"\.L\w+", "L", line) for line in body) for body in bodies)


def test_arguments_may_be_aligned_to_their_elements_only(tmp_path):
    kernel = make_kernel(SMALL, MACHINE, "direct")
    function = kernel.prim_func("kernel").with_attr(NATURAL, [0, 2])
    run = linked(function, tmp_path)
    inputs, constants = random_operands(SMALL)
    weight = kernel.pack_weight(constants["weight"])
    outputs = []
    for data_offset, weight_offset, output_offset in ((0, 0, 0), (4, 64, 12), (60, 128, 36)):
        data = placed(inputs["data"], data_offset)
        output = placed(np.full(inputs["data"].shape, np.nan, np.float32), output_offset)
        packed = placed(weight, weight_offset)
        assert run(*(array.ctypes.data for array in (data, packed, output))) == 0
        outputs.append(output)
    assert np.isfinite(outputs[0]).all()
    np.testing.assert_array_equal(outputs[1], outputs[0])
    np.testing.assert_array_equal(outputs[2], outputs[0])


@pytest.mark.parametrize("algorithm", ["winograd", "im2col", "im2win"])
def test_scratch_memory_is_given_back_in_order(algorithm, tmp_path):
    kernel = make_kernel(SMALL, MACHINE, algorithm)
    with recorded() as workspace:
        run = linked(kernel.prim_func("kernel"), tmp_path)
    inputs, constants = random_operands(SMALL)
    arrays = [placed(inputs["data"], 0), placed(kernel.pack_weight(constants["weight"]), 0)]
    output = placed(np.full(inputs["data"].shape, np.nan, np.float32), 0)
    assert run(*(array.ctypes.data for array in (*arrays, output))) == 0
    assert np.isfinite(output).all()
    state = {
        name: kind.in_dll(run.library, name).value
        for name, kind in (
            ("depth", ctypes.c_int),
            ("misordered", ctypes.c_int),
            ("used", ctypes.c_uint64),
            ("most", ctypes.c_uint64),
        )
    }
    most = workspace.get("kernel", 0)
    assert state == {"depth": 0, "misordered": 0, "used": 0, "most": most}
    assert most or algorithm == "im2col"


def test_other_arguments_are_assumed_to_be_aligned():
    function = make_kernel(SMALL, PARALLEL, "direct").prim_func("kernel")
    text = {
        natural: assembly(
            compile_function(function.with_attr(NATURAL, natural), PARALLEL, calls=c_calls)
        ).text
        for natural in ((), (0, 1, 2))
    }
    assert "vmovaps\t(" in text[()]
    assert not re.search(r"vmovaps\t\S*\(%r(?!sp)|vmovaps\t%zmm\d+, \S*\(%r(?!sp)", text[0, 1, 2])


def linked(function, folder: Path):
    compile_function(function, MACHINE, calls=c_calls).write_object(folder / "kernel.o")
    (folder / "serial.c").write_text(SERIAL)
    sources = [folder / "kernel.o", folder / "serial.c"]
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", folder / "kernel.so", *sources, "-lm"], check=True
    )
    library = ctypes.CDLL(str(folder / "kernel.so"))
    found = library.kernel
    found.argtypes, found.library = [ctypes.c_void_p] * 3, library
    return found


def placed(array, offset):
    """A copy that starts so many bytes after a multiple of 64."""
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_a_function_takes_pointers_and_returns_zero():
    """The attribute names the parameters whose alignment is not assumed."""

    @T.prim_func(s_tir=True)
    def before(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "copy", NATURAL: [0]})
        for i in range(4):
            y[i] = x[i]

    @T.prim_func(s_tir=True)
    def expected(
        x_data: T.handle("float32", "global"), y_data: T.handle("float32", "global")
    ) -> T.int32:
        T.func_attr({"global_symbol": "copy", NATURAL: [0]})
        x = T.decl_buffer((4,), data=x_data)
        y = T.decl_buffer((4,), data=y_data)
        with T.attr(y_data, "storage_alignment", 64):
            with T.attr("default", "device_id", 0), T.attr("default", "device_type", 1):
                for i in range(4):
                    y[i] = x[i]
            return 0

    check(CFunctions(), before, expected)
