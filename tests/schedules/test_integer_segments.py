"""INT8 convolutions for any vector length: their layers, tiles and code, which is only read."""

from __future__ import annotations

from math import prod

import pytest

from tests.assembly import SVE_DOT, SVE_STORE, assembly, matching, spills
from tests.kernels import scalable_kernel
from tvmconv.algorithms.integer.padded_rows import PaddedRows
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.presets import MACHINES

CORES = [MACHINES[name] for name in ("aarch64+sve", "ftengine")]
BYTES = ":s8s8s32s8"


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
@pytest.mark.parametrize(
    "layer",
    [
        f"ic64ih56oc64kh1{BYTES}+bias",
        f"ic128ih28oc128kh3ph1{BYTES}:zpdata+bias",
        f"ic256ih14oc256kh3sh2ph1{BYTES}+bias",
        f"ic64ih56oc256kh1{BYTES}+bias+add",
        f"g4ic128ih28oc128kh3ph1{BYTES}+bias",
    ],
)
def test_dwords_of_four_positions_are_multiplied_by_lane_without_spills(core, layer):
    kernel = scalable_kernel(Conv2dWorkload.parse(layer), core, "direct")
    code = assembly(kernel)
    body = code.hot_loop(SVE_DOT)
    products = matching(SVE_DOT, body)
    vectors = kernel.config.int("oc") * kernel.config.int("vectors")
    # two channel blocks of four positions, or all blocks of a group
    assert len(products) % (2 * 4 * vectors) == 0 and len(products) >= 32
    assert not spills(body)
    assert len(products) >= 0.65 * len(body)
    # a tile's results: four vectors become one, in two steps and a transposition
    stores = matching(SVE_STORE, code.lines)
    assert len(matching(r"uzp1\s+z", code.lines)) == 3 * len(stores)
    assert len(matching(r"tbl\s+z", code.lines)) == len(stores) >= vectors


@pytest.mark.parametrize(
    "layer",
    [
        # a residual has no columns between rows
        f"ic64ih14oc64kh3ph1{BYTES}+bias+add",
        f"ic64ih14iw1oc64kh3kw1ph1pw0{BYTES}+bias",
        f"ic64ih14oc64kh3ph1{BYTES}:fixed+bias",
        "ic64ih14oc64kh3ph1:s8s8s32s32",
    ],
)
def test_accumulators_that_tiles_cannot_round_pass_through_memory(layer):
    workload = Conv2dWorkload.parse(layer)
    kernel = scalable_kernel(workload, CORES[0], "direct")
    code = assembly(kernel)
    body = code.hot_loop(SVE_DOT)
    assert len(matching(SVE_DOT, body)) >= 32 and not spills(body)
    assert not matching(r"uzp1\s+z", code.lines)
    # four bytes of each, in addition to the copy of the image
    rows = PaddedRows(workload)
    copied = prod(rows.copy_shape(CORES[0]))
    assert rows.workspace_bytes(CORES[0]) == copied + 4 * prod(rows.output_shape(CORES[0]))


@pytest.mark.parametrize(
    "target, layer",
    [
        # the same peak by NEON's smmla
        ("neoverse-v1+sve", f"ic64ih14oc64kh3ph1{BYTES}+bias"),
        # groups that begin inside of a block of channels
        ("aarch64+sve", f"g8ic48ih14oc48kh3ph1{BYTES}+bias"),
        ("aarch64+sve", "ic64ih14oc64kh3ph1:s8s16s32s8+bias"),
    ],
)
def test_other_layers_have_neon_code(target, layer):
    workload, core = Conv2dWorkload.parse(layer), MACHINES[target]
    (config,) = registry.offers("direct", workload, core)
    assert config["vectors"] == 0
    scalable = config.replace(oc=2, oh=1, ow=1, rows=0, vectors=2)
    with pytest.raises(ConfigError, match=r"Set vectors=0 for NEON code|has not|smmla"):
        make_kernel(workload, core, "direct", scalable)


def test_tiles_and_bands_that_do_not_fit_are_refused():
    workload = Conv2dWorkload.parse(f"ic64ih56oc64kh1{BYTES}+bias")
    config = registry.offers("direct", workload, CORES[0])[0]
    for knobs, reason in (
        ({"oc": 3, "vectors": 3}, "registers"),
        ({"oc": 1, "vectors": 4}, "1 to 3 vectors"),
        ({"rows": 5}, "a divisor of its 784 segments"),
        ({"ow": 2}, "for NEON code"),
    ):
        with pytest.raises(ConfigError, match=reason):
            make_kernel(workload, CORES[0], "direct", config.replace(**knobs))


def test_threads_share_bands_where_groups_of_outputs_are_few():
    text = f"ic64ih56oc16kh3ph1{BYTES}+bias"
    workload, machine = Conv2dWorkload.parse(text), CORES[0].with_cores(8)
    config = registry.offers("direct", workload, machine)[0]
    segments = PaddedRows(workload).positions // 4
    assert config.int("rows") and segments % config.int("rows") == 0


def test_phases_of_a_stride_hold_what_windows_read():
    rows = PaddedRows(Conv2dWorkload.parse(f"ic4ih15iw18oc8kh3sh2ph1{BYTES}"))
    # 8 by 9 outputs; the last kernel element is one row and one column away in its phase
    assert (rows.phases, rows.reach, rows.pitch) == ((2, 2), (1, 1), 10)
    assert rows.positions == 80 and rows.rows == 10
    pixelwise = PaddedRows(Conv2dWorkload.parse(f"ic4ih15oc8kh1sh2{BYTES}"))
    assert (pixelwise.phases, pixelwise.pitch, pixelwise.is_direct) == ((1, 1), 8, False)
