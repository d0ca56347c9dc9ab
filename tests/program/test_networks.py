"""The arena of whole networks, compared with the plans of TVM's own passes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest
import tvm
from onnx import ModelProto
from tvm import relax

from examples.networks import NETWORKS
from tests.small_network import small_network
from tvmconv.compile.network import legalized
from tvmconv.frontend import read_model, to_relax
from tvmconv.graph.lower import lower
from tvmconv.machines.x86 import MACHINES
from tvmconv.program.collect import collect

MACHINE = MACHINES["x86-64-v3"]
# these have many layers, and convolutions small enough to be selected in seconds
LIGHT = ("squeezenet1_1", "mobilenet_v2")
CASES: dict[str, Callable[[], ModelProto]] = {"small": small_network, **NETWORKS}


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("small", *LIGHT) else pytest.param(name, marks=pytest.mark.slow)
        for name in CASES
    ],
)
def test_arena_is_near_its_bound_and_within_tvm_s_plan(name: str) -> None:
    loaded = read_model(CASES[name]())
    lowered = lower(to_relax(loaded), MACHINE)
    # schedules change no buffer
    mod = legalized(lowered.mod)
    program, functions = collect(
        mod, loaded.inputs, loaded.outputs, lowered.calls, lowered.decisions
    )
    assert program.arena_bound <= program.arena_bytes <= 1.05 * program.arena_bound
    assert program.arena_bytes <= planned_by_tvm(mod)
    # layers keep their names, and each function is there once; concatenations may be no calls
    records = [call.record for call in program.calls]
    called = [call.layer for call in lowered.calls if call.operator != "concat"]
    assert [record.layer for record in records if record.operator != "concat"] == called
    assert len(records) == len(called) + (name == "small")
    symbols = {str(func.attrs["global_symbol"]) for func in functions.functions.values()}
    assert symbols == {call.record.kernel for call in program.calls}
    assert len(functions.functions) == len(symbols)


def planned_by_tvm(mod: Any) -> int:
    """Bytes of the storage that the virtual machine would allocate, without the outputs."""
    transform = relax.transform
    passes = [
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
        transform.StaticPlanBlockMemory(),
    ]
    total = 0

    def look(expr: Any) -> None:
        nonlocal total
        if getattr(getattr(expr, "op", None), "name", "") == "relax.memory.alloc_storage":
            total += prod(int(size) for size in expr.args[0].values)

    relax.analysis.post_order_visit(tvm.ir.transform.Sequential(passes)(mod)["main"], look)
    return total
