"""Code of INT8 layers for 64-bit Arm: the instructions of the loops that multiply."""

from __future__ import annotations

import pytest

from tests.assembly import assembly, matching, spills
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.sve import MACHINES as SCALABLE

# two taps of four columns, and what widens bytes
TAPS = r"sm(?:ull|lal)2?\s+v\d+\.8h, v\d+\.(?:8|16)b"
WIDER = r"(?:sshll|sxtl)"
# for dwords of rows, and the names of such kernels
WORDS = r"sdot\s+v\d+\.4s, v\d+\.16b, v\d+\.16b$"
ROWS = r"zip[12]\s"
DOT = r"sdot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b\[\d\]"
PAIRS = r"sadalp\s+v\d+\.4s, v\d+\.8h"
LANE = r"smlal2?\s+v\d+\.4s, v\d+\.[48]h, v\d+\.h\[\d\]"
VECTOR = r"sdot\s+z\d+\.s, z\d+\.b, z\d+\.b$"
SHORT = r"sdot\s+z\d+\.s, z\d+\.b, z\d+\.b\[\d\]"
MATRIX = r"smmla\s+v\d+\.4s, v\d+\.16b, v\d+\.16b"
BYTES = ":s8s8s32s8+bias"


@pytest.mark.parametrize(
    ("name", "algorithm", "text", "sums", "share"),
    [
        ("neoverse-n1", "direct", "ic64ih28oc64kh3ph1", DOT, 0.72),
        ("cortex-a55", "direct", "ic256ih14oc256kh1", DOT, 0.7),
        # weights of 64-bit groups are two loads, and pixels come in twos
        ("neoverse-v1", "direct", "ic64ih28oc64kh3ph1", MATRIX, 0.7),
        ("neoverse-n2", "direct", "ic256ih14oc256kh1", MATRIX, 0.7),
        ("neoverse-v1", "direct", "ic128ih28oc128kh3sh2ph1", MATRIX, 0.45),
        # the last of seven pixels is multiplied twice
        ("neoverse-n2", "direct", "ic64ih7oc64kh3ph1", MATRIX, 0.6),
        # two multiplications and half a broadcast dword for each
        ("cortex-a72", "direct", "ic64ih28oc64kh3ph1", PAIRS, 0.22),
        ("cortex-a53", "direct", "ic64ih28oc64kh3ph1", PAIRS, 0.18),
        ("cortex-a72", "direct", "ic64ih56oc128kh3sh2ph1", PAIRS, 0.19),
        ("cortex-a72", "winograd", "ic64ih28oc64kh3ph1", LANE, 0.8),
        # a load broadcasts a pixel's dword for two blocks of sums
        ("a64fx", "direct", "ic64ih28oc64kh3ph1", VECTOR, 0.58),
        ("a64fx", "direct", "ic256ih14oc1024kh1", VECTOR, 0.5),
        ("aarch64+sve", "direct", "ic64ih28oc64kh3ph1", SHORT, 0.7),
    ],
)
def test_sums_stay_in_registers(name: str, algorithm: str, text: str, sums: str, share: float):
    machine = (MACHINES | SCALABLE)[name]
    kernel = make_kernel(Conv2dWorkload.parse(text + BYTES), machine, algorithm)
    body = assembly(kernel).hot_loop(sums)
    assert not spills(body)
    assert len(matching(sums, body)) >= share * len(body)


def test_three_channels_are_transformed_in_whole_vectors():
    workload = Conv2dWorkload.parse(f"ic3ih40oc16kh7sh2ph3{BYTES}")
    lines = assembly(make_kernel(workload, MACHINES["cortex-a72"], "winograd")).lines
    assert matching(LANE, lines)
    assert not matching(r"(?:ld1|st1|umov|mov)\s.*v\d+\.h ?\}?\[[0-2]\]", lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # eight for four columns of dwords; the last two of ten need half as many
        ("g32ic32ih56oc32kh3ph1", 8 * 2 + 4),
        # the last of 17 columns is a dword by itself
        ("g32ic32ih56oc32kh3sh2ph1", 8 * 4 + 3),
    ],
)
def test_dwords_of_rows_are_made_by_whole_vectors(text: str, words: int):
    kernel = make_kernel(Conv2dWorkload.parse(text + BYTES), MACHINES["neoverse-n1"], "depthwise")
    outputs = kernel.config.int("tile_h") * kernel.config.int("tile_w")
    body = assembly(kernel).hot_loop(WORDS)
    assert not spills(body)
    assert len(matching(WORDS, body)) == 3 * outputs
    assert len(matching(ROWS, body)) <= words
    assert not [line for line in body if "fcvtns" in line or "ld1" in line]
    assert len(body) <= 13 * outputs if "sh2" not in text else 19 * outputs


@pytest.mark.parametrize("name", ["cortex-a72", "cortex-a53"])
def test_taps_are_multiplied_as_bytes(name: str):
    workload = Conv2dWorkload.parse(f"g32ic32ih56oc32kh3ph1{BYTES}")
    kernel = make_kernel(workload, MACHINES[name], "depthwise")
    outputs = kernel.config.int("tile_h") * kernel.config.int("tile_w")
    body = assembly(kernel).hot_loop(TAPS)
    assert not spills(body)
    assert not matching(WIDER, body)
    # of 16 outputs 18 multiplications of eight, and 20 additions of four
    assert len(matching(TAPS, body)) == 18 * outputs // 4
    assert len([line for line in body if "\tsaddw" in line]) == 20 * outputs // 4


def test_dwords_of_a_stride_are_lanes_too():
    workload = Conv2dWorkload.parse(f"ic64ih28oc64kh1sh2{BYTES}")
    body = assembly(make_kernel(workload, MACHINES["neoverse-n1"], "direct")).hot_loop(DOT)
    assert matching(DOT, body)
    assert not [line for line in body if "ld1r" in line]
