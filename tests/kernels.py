"""Running one scheduled kernel, and reading the code that was generated for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tests.strategies import ConvArrays, conv_arrays
from tvmconv.compile.tir import register
from tvmconv.kernel import Kernel, make_kernel
from tvmconv.machine import MACHINES, Machine
from tvmconv.report.reference import convolution
from tvmconv.workload import Conv2dWorkload

V3, V4 = MACHINES["x86-64-v3"], MACHINES["x86-64-v4"]
REGISTER = {"avx2": "ymm", "avx512": "zmm"}


def compile_kernel(kernel: Kernel) -> Any:
    return tvm.tirx.build(
        kernel.prim_func(), target=kernel.machine.tvm_target(), pipeline=register()
    )


def block(array: np.ndarray, lanes: int) -> np.ndarray:
    """NCHW to NCHWc; surplus lanes hold large values that nothing may read as data."""
    n, channels, height, width = array.shape
    blocks = -(-channels // lanes)
    padded = np.full((n, blocks * lanes, height, width), 1e3, np.float32)
    padded[:, :channels] = array
    split = padded.reshape(n, blocks, lanes, height, width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


def unblock(array: np.ndarray, channels: int) -> np.ndarray:
    n, blocks, height, width, lanes = array.shape
    plain = array.transpose(0, 1, 4, 2, 3).reshape(n, blocks * lanes, height, width)
    return plain[:, :channels]


def run_kernel(kernel: Kernel, arrays: ConvArrays) -> np.ndarray:
    """The kernel's output in its blocked layout; what it should write is NaN before the call."""
    w, lanes = kernel.workload, kernel.machine.lanes
    data = arrays.data if w.data_layout == "NCHW" else block(arrays.data, lanes)
    arguments = [data, kernel.pack_weight(arrays.weight)]
    blocks = kernel.machine.blocks(w.out_channels)
    if w.has("bias"):
        bias = np.zeros(blocks * lanes, np.float32)
        bias[: w.out_channels] = arrays.bias
        arguments.append(bias.reshape(blocks, lanes))
    if w.has("add"):
        arguments.append(block(arrays.residual, lanes))
    shape = (w.batch, blocks, w.out_height, w.out_width, lanes)
    arguments.append(np.full(shape, np.nan, np.float32))
    tensors = [tvm.runtime.tensor(a) for a in arguments]
    compile_kernel(kernel)["main"](*tensors)
    return tensors[-1].numpy()


def check_kernel(
    workload: Conv2dWorkload, machine: Machine, algorithm: str, config: Any = None
) -> None:
    """Compare with float64, 1e-5 relative to the largest output; surplus lanes stay finite."""
    arrays = conv_arrays(workload)
    kernel = make_kernel(workload, machine, algorithm, config)
    actual = run_kernel(kernel, arrays)
    expected = convolution(
        workload,
        {"data": arrays.data, "residual": arrays.residual},
        {"weight": arrays.weight, "bias": arrays.bias},
    )
    assert np.isfinite(actual).all(), (workload, kernel.config)
    error = np.abs(unblock(actual, workload.out_channels) - expected).max()
    assert error <= 1e-5 * max(np.abs(expected).max(), 1.0), (workload, kernel.config, error)


@dataclass(frozen=True)
class Code:
    """Assembly of one kernel."""

    text: str
    register: str

    def loops(self) -> list[list[str]]:
        """Instructions of every innermost loop; one branch inside is allowed."""
        lines = self.text.splitlines()
        labels = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
        bodies = []
        for i, line in enumerate(lines):
            jump = re.match(r"\s+j\w+\s+(\.L\w+)", line)
            if jump and labels.get(jump[1], i) < i:
                bodies.append([text.strip() for text in lines[labels[jump[1]] : i + 1]])
        return [body for body in bodies if _jumps(body) <= 2]

    def hot_loop(self) -> list[str]:
        """The loop without branches that has the most multiply-adds."""
        straight = [body for body in self.loops() if _jumps(body) == 1]
        return max(straight, key=self.multiply_adds)

    def multiply_adds(self, body: list[str]) -> int:
        """Packed multiply-adds on the machine's widest registers."""
        full = re.compile(rf"vfn?madd\w+ps\s.*%{self.register}")
        return sum(bool(full.match(text)) for text in body)

    def spills(self, body: list[str]) -> list[str]:
        """Vector instructions that touch the stack."""
        return [text for text in body if f"%{self.register}" in text and "(%rsp" in text]

    def stores(self, body: list[str]) -> list[str]:
        """Vector stores to memory."""
        move = re.compile(rf"vmov\w+\s+%{self.register}\d+,\s*\S*\(")
        return [text for text in body if move.match(text)]


def _jumps(body: list[str]) -> int:
    return sum(text.startswith("j") for text in body)


def generated_code(kernel: Kernel) -> Code:
    return Code(compile_kernel(kernel).inspect_source("s"), REGISTER[kernel.machine.isa])


def lowered_text(kernel: Kernel) -> str:
    """The scheduled function as text: what golden files hold."""
    return str(kernel.prim_func().script()) + "\n"
