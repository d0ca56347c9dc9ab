"""Memory of INT8 models: bytes of weights, activations, files, and the bound of the budget."""

from __future__ import annotations

from math import prod
from pathlib import Path

import onnx
import pytest

import tvmconv
from tests.graph.quantised_net import QuantisedNet
from tvmconv.core.errors import ConfigError
from tvmconv.model import CompiledModel

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
    model = built(overrides=dict.fromkeys(names, entry))
    sizes = [d.chosen.packed_weight_bytes for d in model.decisions if d.layer in names]
    assert sizes == [2 * (mh + 2) ** 2 * CHANNELS**2] * 2


def test_the_budget_bounds_the_workspace():
    # a CPU with VNNI: data need no copy in 16 bits
    target = "llvm -mcpu=icelake-server"
    free = built(target=target)
    most = max(decision.chosen.workspace_bytes for decision in free.decisions)
    assert most > 0
    for budget in (most - 1, 0):
        bounded = built(target=target, memory_budget=budget)
        assert all(d.chosen.workspace_bytes <= budget for d in bounded.decisions)
        assert bounded.memory.workspace_bytes <= budget


def test_a_budget_without_room_for_the_widened_copy_is_refused_by_the_layers_name():
    with pytest.raises(ConfigError, match=r"layer '.*' needs at least [0-9]+ bytes of workspace"):
        built(target="x86-64-v3", memory_budget=0)
