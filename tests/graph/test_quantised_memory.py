"""Memory of INT8 models: bytes of weights, activations, files, and the bound of the budget."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import onnx
import pytest

import tvmconv
from tests.graph.network import prepared
from tests.graph.quantised_net import QuantisedNet
from tvmconv.core.decision import Decision
from tvmconv.core.errors import ConfigError
from tvmconv.graph.layout import plan_layouts
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.model import CompiledModel
from tvmconv.selection.policy import make_policy

CHANNELS, PIXELS = 64, 28
LAYERS = ("a3", "b1", "c3")


def network() -> onnx.ModelProto:
    """Layers of whole blocks that Winograd and direct convolution compute."""
    net = QuantisedNet(1, CHANNELS, PIXELS, PIXELS, seed=20)
    x = net.rounded("x")
    for name in LAYERS:
        size = int(name[-1])
        y = net.layer("Conv", x, CHANNELS, CHANNELS, size, size)
        net.nodes[-1].name = name
        x = net.rounded(net.op("Relu", y), zero=0)
    return net.model(net.rounded(net.op("GlobalAveragePool", x)))


def decided(machine: Machine, **options: Any) -> list[Decision]:
    """The selection of a build, without machine code."""
    plan = plan_layouts(prepared(network(), machine), machine, policy=make_policy(**options))
    return list(plan.decisions.values())


def built(**options: object) -> CompiledModel:
    return tvmconv.build(network(), threads=1, **options)  # type: ignore[arg-type]


def test_direct_weights_and_activations_take_a_byte_each(tmp_path: Path):
    model = built(algorithms=["direct"])
    weights = 0
    for decision in model.decisions:
        assert decision.chosen.packed_weight_bytes == prod(decision.workload.weight_shape)
        weights += decision.chosen.packed_weight_bytes
    activation = CHANNELS * PIXELS * PIXELS
    # the 8-bit input in both layouts, or a layer's operand and result
    assert model.memory.arena_bytes <= 2.1 * activation
    path = tmp_path / "model.so"
    model.save(path)
    # the rest is code; weights of float32 alone would be four times as large
    assert path.stat().st_size < 3 * weights


@pytest.mark.parametrize("mh", [2, 3, 4])
def test_winograd_weights_take_two_bytes_for_each_value_of_a_tile(mh: int):
    entry = {"algorithm": "winograd", "knobs": {"mh": mh, "mw": mh}}
    names = [layer for layer in LAYERS if layer.endswith("3")]
    found = decided(resolve_machine("native", 1), overrides=dict.fromkeys(names, entry))
    sizes = [d.chosen.packed_weight_bytes for d in found if d.layer in names]
    assert sizes == [2 * (mh + 2) ** 2 * CHANNELS**2] * 2


def test_the_budget_bounds_the_workspace():
    # a CPU with VNNI: data need no copy in 16 bits
    target = "llvm -mcpu=icelake-server"
    machine = resolve_machine(target, 1)
    most = max(decision.chosen.workspace_bytes for decision in decided(machine))
    assert most > 0
    bounded = decided(machine, memory_budget=most - 1)
    assert all(d.chosen.workspace_bytes < most for d in bounded)
    compiled = built(target=target, memory_budget=0)
    assert not any(d.chosen.workspace_bytes for d in compiled.decisions)
    assert compiled.memory.workspace_bytes == 0


def test_a_budget_without_room_for_the_widened_copy_is_refused_by_the_layers_name():
    with pytest.raises(ConfigError, match=r"layer '.*' needs at least [0-9]+ bytes of workspace"):
        built(target="x86-64-v3", memory_budget=0)
