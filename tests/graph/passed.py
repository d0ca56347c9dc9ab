"""Modules that went through ``SubstituteConv2d``, run and compared."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tvmconv.transform import ScheduleOperators, SubstituteConv2d

RNG = np.random.default_rng(0)


def weight(*shape: int):
    return relax.const((RNG.standard_normal(shape) * 0.1).astype("float32"))


def tensor(name: str, *shape: int):
    return relax.Var(name, relax.TensorType(shape, "float32"))


def run(mod: tvm.IRModule, function: str, *inputs: np.ndarray) -> list[np.ndarray]:
    executable = relax.build(mod, target="llvm")
    result = relax.VirtualMachine(executable, tvm.cpu())[function](
        *(tvm.runtime.tensor(value) for value in inputs)
    )
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def assert_same(mod: tvm.IRModule, passed: tvm.IRModule, function: str, *shapes):
    inputs = [RNG.standard_normal(shape).astype("float32") for shape in shapes]
    for expected, actual in zip(
        run(mod, function, *inputs), run(passed, function, *inputs), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def calls(mod: tvm.IRModule) -> set[str]:
    """Names of the Relax operators and functions that are called."""
    found = set()

    def visit(expr):
        op = getattr(expr, "op", None)
        if isinstance(op, tvm.ir.Op):
            found.add(op.name if op.name != "relax.call_tir" else expr.args[0].name_hint)

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return found


def pipeline() -> tvm.transform.Pass:
    transform = relax.transform
    return tvm.transform.Sequential(
        [
            SubstituteConv2d("native", threads=1),
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FuseOps(),
            transform.FuseTIR(),
            ScheduleOperators("native", threads=1),
        ]
    )
