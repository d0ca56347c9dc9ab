"""The planned memory that the manifest reports."""

from __future__ import annotations

import numpy as np
import programs
import pytest

from tvmconv.model import CompiledModel
from tvmconv.runtime.memory import peak_storage, returns_constants

STATISTICS = """Relax VM executable statistics:
  Constant pool (# 5): [float32, "ErrorContext(fn=main, a=R.Tensor((2, 3), dtype="float32")) ", \
shapetuple[100], [64, 64], shapetuple[28]]
  Globals (#3): [main, vm.builtin.alloc_storage, a]
"""


def test_peak_follows_the_lives_of_the_blocks() -> None:
    program = """@main:
  call  vm.builtin.alloc_storage in: %vm, c[2], i0, c[0], c[4] dst: %1
  call  vm.builtin.alloc_tensor in: %1, i0, c[2], c[0] dst: %2
  call  vm.builtin.null_value in:              dst: %1
  call  a                in: %0, %2       dst: %void
  call  vm.builtin.alloc_storage in: %vm, c[4], i0, c[0], c[4] dst: %3
  call  vm.builtin.alloc_tensor in: %3, i0, c[2], c[0] dst: %4
  call  vm.builtin.reshape in: %2, c[4] dst: %5
  call  vm.builtin.null_value in:              dst: %2
  call  vm.builtin.null_value in:              dst: %5
  call  vm.builtin.alloc_storage in: %vm, c[2], i0, c[0], c[4] dst: %1
  call  vm.builtin.make_tuple in: %1, %4       dst: %7
  ret   %7
"""
    assert peak_storage(STATISTICS, program) == 128
    with pytest.raises(ValueError, match="another form"):
        peak_storage(STATISTICS.replace("# 5", "# 6"), program)


def test_returned_constants_are_found() -> None:
    assert returns_constants("@main:\n  ret   c[3]\n")
    assert returns_constants("  call  vm.builtin.make_tuple in: %1, c[3] dst: %2\n  ret %2\n")
    assert not returns_constants("  call  add              in: c[3], %1 dst: %void\n  ret %1\n")


def test_report(dense: CompiledModel) -> None:
    memory = dense.memory
    assert memory.constant_bytes == programs.WEIGHT.nbytes
    activation = 4 * programs.ROWS * programs.COLUMNS
    assert memory.output_bytes == activation + 4 * programs.ROWS
    # product and relu share nothing with the output; the two results live at the end
    assert 2 * activation <= memory.arena_bytes <= 3 * activation + 4 * programs.ROWS
    assert memory.workspace_bytes == memory.padding_bytes == 0


def test_constant_used_twice_counts_once() -> None:
    from tvm import relax

    value = np.ones((16, 16), "float32")
    constant = relax.const(value)

    def make(builder: object, x: object) -> object:
        return relax.op.add(builder.emit(relax.op.add(x, constant)), constant)

    assert programs.unary_model(make, (16, 16)).memory.constant_bytes == value.nbytes
