"""Direct convolution with AMX: 64-bit integers bit for bit, and the code of its loops.

Processors without tiles run the same schedule as loops, which the passes of tiles leave alone.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm

from tests.assembly import assembly
from tests.kernels import V4, allocated, default_config, executed_on, integer_arguments
from tests.layout import unblock
from tests.tiles_machine import TILES, each_tile_machine
from tvmconv.algorithms.integer.tile_copies import TapsSideBySide, tile_copy
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.arguments import Constants
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.record import Machine
from tvmconv.measuring.integers import exact_output, random_integers
from tvmconv.selection.policy import make_policy
from tvmconv.selection.select import select
from tvmconv.tir.annotations import TILE, TILE_PANEL
from tvmconv.tir.general.rewrite import replace_marked
from tvmconv.tir.pipeline import c_calls, compile_function

LAYERS = [
    "ic64ih14oc64kh1:u8s8s32u8+bias",
    "mb2ic80ih9iw13oc40kh1:u8s8s32u8+bias+quantise+add",
    "ic130ih10oc33kh1sh2:u8s8s32u8+bias",
    "ic64ih5iw40oc16kh1:u8s8s32s32",
    "ic64ih14oc64kh3ph1:u8s8s32u8:zpdata+bias",
    "mb2ic17ih9oc20kh3ph1:u8s8s32u8:zpdata+bias",
    "ic70ih15oc48kh3sh2ph1:u8s8s32u8:zpdata+bias",
    "ic20ih12oc16kh5ph2dh1:u8s8s32u8:zpdata+bias",
    "ic33ih9iw20oc16kh3kw1sh2sw3ph1pw0:u8s8s32f32+bias+relu",
    "ic24ih11oc16kh1sh3ph1:u8s8s32u8:zpdata+bias",
    # first layers
    "ic3ih32oc40kh7sh2ph3:u8s8s32u8:zpdata+bias",
    "mb2ic3ih19iw23oc20kh3sh2ph1:u8s8s32u8:zpdata+bias",
    "ic1ih28oc20kh5ph2:u8s8s32u8+bias",
    "ic4ih9iw14oc24kh2kw5sh1sw3pt1pl0pb0pr4:u8s8s32u8:zpdata+bias",
    "ic3ih35oc24kh11sh4ph2:u8s8s32u8+bias",
]


def outputs(kernel: Kernel, function: Any, weight: np.ndarray | None = None) -> Any:
    """The result of a kernel's function for random operands, and the exact output."""
    operands = random_integers(kernel.workload, 5)
    if weight is not None:
        constants = operands.constants
        values = {name: getattr(constants, name) for name in constants.__dataclass_fields__}
        operands = type(operands)(
            operands.data, Constants(**{**values, "weight": weight}), operands.residual
        )
    tensors = [tvm.runtime.tensor(a) for a in integer_arguments(kernel, operands)]
    function["main"](*tensors)
    actual = unblock(tensors[-1].numpy(), kernel.workload.out_channels)
    return actual, exact_output(kernel.workload, operands)


def check(kernel: Kernel, function: Any, weight: np.ndarray | None = None) -> None:
    actual, expected = outputs(kernel, function, weight)
    if expected.dtype == np.float32:
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(actual, expected)
        assert weight is not None or len(np.unique(expected)) > 50


@each_tile_machine
@pytest.mark.parametrize("text", LAYERS)
def test_tiles_are_exact(text: str, machine: Machine):
    kernel = make_kernel(Conv2dWorkload.parse(text), machine, "direct_tiles")
    check(kernel, compile_function(kernel.prim_func(), machine))


@each_tile_machine
@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize(
    ("text", "knobs"),
    [
        ("ic70ih15oc48kh3sh2ph1:u8s8s32u8:zpdata+bias", {"oc": 1, "oh": 4, "ow": 5, "side": 1}),
        ("ic70ih15oc48kh3sh2ph1:u8s8s32u8:zpdata+bias", {"oc": 3, "oh": 1, "ow": 2, "side": 1}),
        ("ic64ih9oc64kh3ph1:u8s8s32u8+bias", {"oc": 2, "oh": 1, "ow": 3, "side": 2, "rows": 3}),
        ("mb2ic80ih14oc72kh1:u8s8s32u8+bias", {"oc": 2, "ow": 14, "side": 2, "rows": 1}),
        ("mb2ic80ih14oc72kh1:u8s8s32u8+bias", {"oc": 2, "ow": 14, "side": 2, "rows": 7}),
        ("mb2ic80ih14oc72kh1:u8s8s32u8+bias", {"oc": 1, "ow": 16, "side": 4, "rows": 0}),
    ],
)
def test_any_group_is_exact(text: str, knobs: dict[str, int], cores: int, machine: Machine):
    workload, machine = Conv2dWorkload.parse(text), machine.with_cores(cores)
    for fetch in (0, 1):
        config = default_config("direct_tiles", workload, machine, **knobs, fetch=fetch)
        kernel = make_kernel(workload, machine, "direct_tiles", config)
        check(kernel, compile_function(kernel.prim_func(), machine, draft=bool(fetch)))


@each_tile_machine
@pytest.mark.parametrize("extreme", [-128, 127])
def test_the_largest_sums_are_exact(extreme: int, machine: Machine):
    workload = Conv2dWorkload.parse("ic2048ih3oc16kh3ph1:u8s8s32s32")
    kernel = make_kernel(workload, machine, "direct_tiles")
    weight = np.full(workload.weight_shape, extreme, np.int8)
    check(kernel, compile_function(kernel.prim_func(), machine), weight)


@pytest.mark.parametrize("machine", [executed_on(V4)])
@pytest.mark.parametrize("text", [*LAYERS[1::3], LAYERS[10]])
def test_the_schedule_is_right_as_loops(text: str, machine: Machine):
    """The passes' input: without their annotations the loops over tiles run unchanged."""
    kernel = make_kernel(Conv2dWorkload.parse(text), TILES, "direct_tiles")
    plain = replace_marked(kernel.prim_func(), dict.fromkeys((TILE, TILE_PANEL), _as_it_is))
    assert str(plain) != str(kernel.prim_func())
    check(kernel, compile_function(plain, machine))


def _as_it_is(loop: Any, _value: Any) -> Any:
    return loop


def tile_code(text: str, **knobs: int) -> list[str]:
    """The lines of a kernel's assembly from the configuration of tiles to their release."""
    workload = Conv2dWorkload.parse(text)
    config = default_config("direct_tiles", workload, TILES, **knobs)
    kernel = make_kernel(workload, TILES, "direct_tiles", config)
    lines = assembly(kernel).lines
    begin = next(i for i, line in enumerate(lines) if "ldtilecfg" in line)
    end = next(i for i, line in enumerate(lines) if "tilerelease" in line)
    assert sum("ldtilecfg" in line for line in lines) == 1
    return lines[begin:end]


def loop_of(lines: list[str]) -> list[str]:
    """The innermost loop that multiplies tiles: from its label to the jump to it."""
    found = []
    for end, line in enumerate(lines):
        if jump := re.match(r"\tj\w+\t(\.LBB\d+_\d+)$", line):
            starts = [i for i in range(end) if lines[i].startswith(f"{jump[1]}:")]
            body = lines[starts[-1] : end] if starts else []
            if any("tdpbusd" in each for each in body):
                found.append(body)
    return min(found, key=len)


@pytest.mark.parametrize("steps", [1, 9, 36])
def test_sums_of_a_group_stay_in_registers(steps: int):
    text = {
        1: "ic64ih16oc256kh1:u8s8s32u8+bias",
        9: "ic64ih16iw64oc32kh3ph1:u8s8s32u8:zpdata+bias",
        36: "ic256ih16iw64oc32kh3ph1:u8s8s32u8:zpdata+bias",
    }[steps]
    body = loop_of(tile_code(text, oc=2, oh=1, ow=16, side=2, rows=0))
    count = sum("tdpbusd" in line for line in body)
    assert count == 4 * steps
    loads = [line for line in body if "tileloadd" in line]
    # each factor once in a step, and the bias of each tile
    assert len(loads) == 4 * steps + 4
    assert sum("tilestored" in line for line in body) == 4
    multiplied = [i for i, line in enumerate(body) if "tdpbusd" in line]
    stored = [i for i, line in enumerate(body) if "tilestored" in line]
    assert min(stored) > max(multiplied)
    # sixteen pixels of two blocks, twice: 64 vectors become bytes between the products
    loaded = next(i for i, line in enumerate(body) if "tileloadd" in line)
    between = body[loaded : multiplied[-1]]
    assert sum("vcvtps2dq" in line for line in body) == 64
    assert sum("vcvtps2dq" in line for line in between) > 32


def test_vectors_of_an_epilogue_do_not_read_constants_again():
    body = loop_of(tile_code("ic64ih16oc256kh1:u8s8s32u8+bias+quantise+add", oc=2, ow=16, side=2))
    broadcasts = [line for line in body if re.search(r"vbroadcastss\t.*\(", line)]
    assert len(broadcasts) <= 8


def test_long_reductions_stay_loops():
    body = loop_of(tile_code("ic512ih7oc512kh3ph1:u8s8s32u8:zpdata+bias", oc=2, oh=2, ow=7, side=1))
    assert sum("tdpbusd" in line for line in body) < 72 * 4
    assert not any("tilestored" in line for line in body)


@pytest.mark.parametrize(("groups", "lines"), [(3, 5), (4, 4), (16, 1)])
def test_each_group_asks_for_its_share_of_the_next_weights(groups: int, lines: int):
    text = f"ic64ih{groups}iw32oc64kh3ph1:u8s8s32u8:zpdata+bias"
    knobs = {"oc": 2, "oh": 1, "ow": 16, "side": 2, "rows": 0}
    body = loop_of(tile_code(text, **knobs, fetch=1))
    # nine steps of two tiles of weights
    assert sum("prefetcht1" in line for line in body) == 18 * lines
    assert not any("prefetch" in line for line in tile_code(text, **knobs, fetch=0))


def test_functions_of_tvm_ask_for_permission_and_those_of_models_do_not():
    kernel = make_kernel(Conv2dWorkload.parse(LAYERS[0]), TILES, "direct_tiles")
    function = kernel.prim_func()
    assert assembly(compile_function(function, TILES)).has("syscall")
    assert not assembly(compile_function(function, TILES, calls=c_calls)).has("syscall")
    direct = make_kernel(Conv2dWorkload.parse(LAYERS[0]), TILES, "direct")
    assert not assembly(direct).has("syscall")


@pytest.mark.parametrize(
    ("text", "steps", "high"),
    [
        ("ic3ih224oc64kh7sh2ph3:u8s8s32u8:zpdata+bias", (4,), 2),
        ("ic3ih224oc32kh3sh2ph1:u8s8s32u8:zpdata+bias", (1,), 4),
        ("ic1ih28oc20kh5ph2:u8s8s32u8+bias", (3,), 2),
        ("ic3ih35oc24kh11sh4ph2:u8s8s32u8+bias", (11,), 1),
    ],
)
def test_first_layers_have_several_taps_in_a_row(text: str, steps: tuple[int, ...], high: int):
    copy = tile_copy(Conv2dWorkload.parse(text), TILES)
    assert isinstance(copy, TapsSideBySide)
    assert (copy.steps, copy.high) == (steps, high)


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"oc": 2, "side": 3}, "needs 9 tile registers. Expected at most 8"),
        ({"ow": 17}, "ow from 2 to 16"),
        ({"ow": 1}, "ow from 2 to 16"),
        ({"oh": 2, "side": 1}, "all its pixels are one row. .* Increase side"),
        ({"oc": 2, "ow": 14, "side": 2, "rows": 3}, "rows=3 .* its 7 groups. Expected one of 1, 7"),
    ],
)
def test_groups_that_do_not_fit_are_refused(knobs: dict[str, int], reason: str):
    workload = Conv2dWorkload.parse("ic64ih14oc64kh1:u8s8s32u8+bias")
    config = default_config("direct_tiles", workload, TILES, **knobs)
    with pytest.raises(ConfigError, match=reason):
        make_kernel(workload, TILES, "direct_tiles", config)


@pytest.mark.parametrize(
    ("text", "machine", "reason"),
    [
        ("ic64ih14oc64kh1:u8s8s32u8+bias", V4, "has no AMX tiles"),
        ("ic64ih14oc64kh1", TILES, "it computes in INT8, not float32"),
        ("g2ic64ih14oc64kh1:u8s8s32u8+bias", TILES, "dense layers, not groups"),
        ("ic18ih7oc33kh3ph1:u8s16s32u8:zpdata+bias", TILES, "weights are int16"),
        ("ic3ih32oc40kh7sh2ph3:nchw:u8s8s32u8:zpdata+bias", TILES, "channel-blocked input"),
    ],
)
def test_unsupported_layers_of_tiles_are_reported(text: str, machine: Machine, reason: str):
    found = registry.unavailable("direct_tiles", Conv2dWorkload.parse(text), machine)
    assert found is not None
    assert reason in found


def test_tiles_are_chosen_where_they_are_faster():
    for text, name in {
        "ic64ih56oc64kh3ph1:u8s8s32u8:zpdata+bias": "direct_tiles",
        "ic1024ih14oc256kh1:u8s8s32u8+bias": "direct_tiles",
        "g32ic32ih14oc32kh3ph1:u8s8s32u8:zpdata+bias": "depthwise",
    }.items():
        chosen = select(Conv2dWorkload.parse(text), TILES, policy=make_policy())
        assert chosen.chosen.algorithm == name


@pytest.mark.parametrize(
    ("text", "knobs", "size"),
    [
        # the whole copy with its padding
        ("ic64ih14oc64kh3ph1:u8s8s32u8:zpdata+bias", {"oh": 2, "ow": 14, "side": 1}, 16 * 16 * 64),
        ("ic64ih14oc64kh1:u8s8s32u8+bias", {"ow": 14, "side": 2, "rows": 0}, 196 * 64),
        # a piece on the stack, and one that is too large for it
        ("ic64ih14oc64kh1:u8s8s32u8+bias", {"ow": 14, "side": 2, "rows": 7}, 0),
        ("ic512ih14oc64kh1:u8s8s32u8+bias", {"ow": 14, "side": 2, "rows": 7}, 196 * 512),
    ],
)
def test_workspace_is_what_the_kernel_allocates(text: str, knobs: dict[str, int], size: int):
    workload = Conv2dWorkload.parse(text)
    config = default_config("direct_tiles", workload, TILES, **knobs)
    kernel = make_kernel(workload, TILES, "direct_tiles", config)
    assert allocated(kernel) == kernel.expression.workspace_bytes(workload, TILES, config) == size
