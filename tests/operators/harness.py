"""Compiling one tensor expression, and one ONNX node as its reference."""

from __future__ import annotations

import ctypes
import mmap
import re
import tempfile
from functools import cached_property
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper
from tvm import te

from tests.assembly import Assembly, assembly
from tests.kernels import executed_on, widest
from tvmconv.kernels.rules import schedule_function
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.tir.pipeline import compile_function, unchecked_calls

# for tests that only read compiled code, and for tests that execute it
MACHINES = [
    resolve_machine("x86-64-v3", threads=2),
    resolve_machine("x86-64-v4", threads=2),
]
each_machine = pytest.mark.parametrize("machine", [executed_on(machine) for machine in MACHINES])
# the widest that this host executes
HOST = widest(MACHINES)


class Built:
    """A scheduled and compiled tensor expression."""

    def __init__(self, expression: Any, arrays: list[np.ndarray], machine: Machine) -> None:
        inputs = [
            te.placeholder(a.shape, dtype=str(a.dtype), name=f"x{i}") for i, a in enumerate(arrays)
        ]
        result = expression(*inputs)
        outputs = list(result) if isinstance(result, list | tuple) else [result]
        func = te.create_prim_func([*inputs, *outputs]).with_attr("global_symbol", "main")
        self.func = schedule_function(func, machine)
        # the function is made for these arrays, so TVM's checks are left out
        self.library = compile_function(self.func, machine, calls=unchecked_calls)
        self.inputs = [tvm.runtime.tensor(a) for a in arrays]
        self.outputs = [
            tvm.runtime.empty(tuple(int(d) for d in t.shape), str(t.dtype)) for t in outputs
        ]

    def __call__(self) -> list[np.ndarray]:
        self.library["main"](*self.inputs, *self.outputs)
        return [t.numpy() for t in self.outputs]

    @cached_property
    def code(self) -> Assembly:
        return assembly(self.library)

    @property
    def is_parallel(self) -> bool:
        return self.code.has("ParallelLaunch")

    def vector_instructions(self) -> int:
        return len(re.findall(rf"%{self.code.register}\d+", self.code.text))

    def library_calls(self) -> list[str]:
        """Calls of the C mathematics library."""
        return re.findall(r"call\w*\s+\*?(\w*(?:exp|tanh|log|erf|pow)\w*)", self.code.text)


def run(expression: Any, *arrays: np.ndarray, machine: Machine) -> np.ndarray:
    """Compile, run once, return the only output."""
    (result,) = Built(expression, list(arrays), machine)()
    return result


def onnx_node(
    op: str,
    operands: list[np.ndarray | None],
    opset: int = 19,
    result: str = "float32",
    **attrs: Any,
) -> np.ndarray:
    """First output of one ONNX node in onnxruntime; None leaves an optional input out.

    ``result`` is its type.
    """
    slots = ["" if a is None else f"x{i}" for i, a in enumerate(operands)]
    names = [name for name in slots if name]
    arrays = [a for a in operands if a is not None]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip(names, arrays, strict=True)
    ]
    code = helper.np_dtype_to_tensor_dtype(np.dtype(result))
    output = helper.make_tensor_value_info("y", code, None)
    graph = helper.make_graph([helper.make_node(op, slots, ["y"], **attrs)], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Seeded normally distributed float32 values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def at_the_end_of_memory(x: np.ndarray) -> np.ndarray:
    """A copy of an array; a signal ends the process if bytes after it are read."""
    size = -(-x.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    with tempfile.TemporaryFile() as file:
        file.truncate(size + mmap.PAGESIZE)
        pages = mmap.mmap(file.fileno(), size + mmap.PAGESIZE)
        file.truncate(size)
    copy = np.frombuffer(pages, x.dtype, x.size, size - x.nbytes).reshape(x.shape)
    copy[...] = x
    return copy


def after_forbidden_page(x: np.ndarray) -> np.ndarray:
    """A copy of an array; a signal ends the process if bytes before it are read."""
    pages = mmap.mmap(-1, mmap.PAGESIZE + x.nbytes)
    copy = np.frombuffer(pages, x.dtype, x.size, mmap.PAGESIZE).reshape(x.shape)
    copy[...] = x
    before = ctypes.c_void_p(copy.ctypes.data - mmap.PAGESIZE)
    assert not ctypes.CDLL(None).mprotect(before, ctypes.c_size_t(mmap.PAGESIZE), 0)
    return copy


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 2e-6) -> None:
    """Shapes agree and the largest error is small against the largest value."""
    assert expected.shape == actual.shape
    scale = max(float(np.abs(expected).max()), 1e-30)
    assert float(np.abs(actual - expected).max()) / scale <= tolerance
