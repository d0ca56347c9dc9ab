"""Kernels for 8 bits that copy data or weights first, against 64-bit integers, bit for bit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.assembly import assembly
from tests.kernels import V3, V4, alternating_machines, default_config, executed_on
from tests.schedules.test_integers import BYTES, DEFAULT, LAYERS, computed, outputs
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.record import Machine
from tvmconv.measuring.integers import exact_output, random_integers


@pytest.mark.parametrize(
    "machine", [executed_on(V3), executed_on(V4)], ids=lambda machine: machine.mcpu
)
@pytest.mark.parametrize(
    "text", ["mb2ic15ih1iw11oc40kh1kw3pl2", "mb2ic40ih5iw11oc24kh3ph1sh2", "ic72ih14oc16kh3ph1"]
)
def test_complements_with_a_copy_are_exact(text: str, machine: Machine):
    """Small copies, too, which were cut into a buffer for each complement."""
    workload = Conv2dWorkload.parse(f"{text}:u8s8s32u8:zpdata+bias")
    operands = random_integers(workload, 1)
    config = Config.of(oh=1, ow=5, rows=0, excess=0, packed=1, shares=1)
    kernel = make_kernel(workload, machine, "direct_bytes", config)
    kernel = kernel.suited(operands.constants.weight)
    actual, expected = computed(kernel, operands), exact_output(workload, operands)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "machine", [executed_on(V3), executed_on(V4)], ids=lambda machine: machine.mcpu
)
@pytest.mark.parametrize(
    "text", ["ic64ih14oc40kh3ph1", "mb2g2ic32ih9oc32kh3ph1", "ic24ih11oc24kh1"]
)
@pytest.mark.parametrize("wide", [1, 2])
def test_weights_that_are_widened_once_are_exact(text: str, machine: Machine, wide: int):
    """Before the tiles that use them, or by the first one."""
    workload = Conv2dWorkload.parse(f"{text}:u8s8s32u8:zpdata+bias")
    operands = random_integers(workload, 1)
    config = default_config("direct", workload, machine, oc=1, oh=1, ow=5, wide=wide)
    actual, expected = (
        computed(make_kernel(workload, machine, "direct", config), operands),
        exact_output(workload, operands),
    )
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("wide", [1, 2])
def test_the_first_tile_widens_weights_among_its_products(wide: int):
    """One store for each vector of weights, and none of a sum; no loop is left that only widens."""
    workload = Conv2dWorkload.parse("ic64ih7oc64kh3ph1:u8s8s32u8:zpdata+bias")
    config = default_config("direct", workload, V3, oc=1, oh=1, ow=7, wide=wide)
    code = assembly(make_kernel(workload, V3, "direct", config))
    widening = [body for body in code.loops() if any("vpmovsxbw" in text for text in body)]
    loop = min(widening, key=len)
    # others are around it
    assert all(set(loop) <= set(body) for body in widening)
    products, widened = (sum(name in text for text in loop) for name in ("vpmaddwd", "vpmovsxbw"))
    assert products == (7 * widened if wide > 1 else 0)
    assert len(code.stores(loop)) == widened


PACKED = [*(LAYERS[i] for i in (1, 4, 5, 9, 10)), BYTES[4]]
# by default, and as the paper has them: tiles of 4 pixels, sums of parts of the channels
PANELS = ({}, {"mr": 4, "oc": 1, "mc": 1, "kc": 1})


@alternating_machines("text, knobs", [*product(PACKED, PANELS)], DEFAULT)
def test_packed_panels_are_exact(text: str, knobs: dict[str, int], machine: Machine):
    workload = Conv2dWorkload.parse(text)
    kernel = make_kernel(workload, machine, "im2col")
    kernel = make_kernel(workload, machine, "im2col", kernel.config.replace(**knobs))
    actual, expected = outputs(kernel)
    np.testing.assert_array_equal(actual, expected, strict=True)
