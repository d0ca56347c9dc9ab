"""8-bit kernels of AArch64 under qemu against 64-bit integers, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.emulating import CALL, HOSTILE, needs_arm, run_functions, vectors_of
from tests.kernels import integer_arguments, scalable_kernel
from tests.layout import unblock
from tests.tir.general.test_narrowing import narrowing
from tvmconv.algorithms.integer.dwords import has_colliding_weights
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.arguments import Constants
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.record import Machine
from tvmconv.machines.sve import MACHINES as SCALABLE
from tvmconv.measuring.integers import IntegerOperands, exact_output, random_integers

SUMS = ":s8s8s32s32"
DIRECT = [
    f"ic16ih5oc16kh1{SUMS}",
    f"ic24ih9oc40kh3ph1{SUMS}+bias",
    "ic3ih9oc20kh3ph1:s8s8s32s8:zpdata+bias",
    "ic32ih14oc64kh3ph1:s8s8s32s8+bias",
    "mb2ic32ih15oc24kh3sh2ph1:s8s8s32s8:zpdata+bias",
    "ic20ih12oc16kh5ph2dh1:s8s8s32s8:zpdata:whole+bias",
    "ic64ih14oc32kh1sh2:s8s8s32s8+bias",
    "ic16ih17oc16kh3sh3:s8s8s32s8+bias",
    "g4ic64ih8oc40kh3ph1:s8s8s32s8:zpdata+bias",
    "ic18ih7oc33kh3pt1pl0pb2pr1:s8s16s32s8:zpdata+bias",
    "ic16ih8oc24kh3ph1:s8s16s32s32",
    "ic20id4ih6oc16kd3kh3pd1ph1:s8s8s32s8:zpdata+bias",
    "ic16ih8oc24kh3ph1:s8s8s32s8:fixed:zpdata:whole+bias",
    "ic20ih7oc18kh1:s8s8s32s8:fixed+bias+quantise+add",
    "ic20ih7oc18kh1:s8s16s32s8:fixed+bias+add",
]
DEPTHWISE = [
    "g20ic20ih9oc20kh3ph1:s8s8s32s8+bias",
    "g32ic32ih9oc32kh3ph1:s8s8s32s8:zpdata+bias",
    "mb2g16ic16ih10oc16kh5sh2ph2:s8s8s32s8+bias",
    "g16ic16ih7oc16kh3ph1:s8s16s32s8:zpdata+bias",
    "g16ic16ih7oc16kh3ph1:s8s8s32s8:fixed:zpdata+bias",
    # rows of dwords that two or four output rows share, or none, and tiles of all widths
    "g12ic12ih11iw21oc12kh3ph1:s8s8s32s8:zpdata+bias+quantise+add",
    "g8ic8ih13iw18oc8kh5ph2:s8s8s32s8:zpdata+bias",
    "g8ic8ih15iw25oc8kh3sh2ph1:s8s8s32s8:zpdata+bias",
    "g8ic8ih10iw17oc8kh3dh1pt2pl0pb2pr1:s8s8s32s8:zpdata+bias",
    "g4ic4ih12iw9oc4kh7ph3:s8s8s32s32",
    "g8ic8id4ih6iw9oc8kd3kh3pd1ph1:s8s8s32s8:zpdata+bias",
]
WINOGRAD = [
    "ic16ih12oc16kh3ph1:s8s8s32s8:zpdata+bias",
    "mb2ic20ih13oc24kh3ph1:s8s8s32s32+bias",
    "ic16ih12oc16kh3ph1:s8s8s32s8:fixed:zpdata+bias",
    "ic20ih17iw15oc24kh3sh2ph1:s8s8s32s8:zpdata+bias",
    "ic3ih19oc16kh7sh2ph3:s8s8s32s8:zpdata+bias",
]
# By scalable vectors: surplus columns, channels and output blocks, and phases of a stride.
# Positions end inside of a segment. Some images are read without a copy.
SCALABLE_ROWS = [
    "ic24ih9oc40kh3ph1:s8s8s32s8:zpdata+bias",
    "mb2ic32ih15iw18oc24kh3sh2ph1:s8s8s32s8:zpdata+bias",
    "ic16ih12oc44kh1:s8s8s32s8+bias",
    "ic32ih7oc33kh1:s8s8s32s8:zpdata+bias",
    "mb2ic64ih14oc32kh1sh2:s8s8s32s8+bias",
    "ic18ih11iw8oc20kh5sh1sw3ph2dh1:s8s8s32s8:zpdata+bias",
    "ic3ih10oc8kh3pt1pl0pb2pr1:s8s8s32s8:zpdata",
    # a residual, and rounding before it
    "ic20ih6oc20kh1:s8s8s32s8+bias+quantise+add+relu",
    "mb2ic24ih6oc20kh1:s8s8s32s8+bias+add",
    "g3ic36ih7oc24kh3ph1:s8s8s32s8:zpdata+bias",
    # accumulators in memory: a residual of padded rows, rows of equal length, other results
    "ic20ih9oc20kh3ph1:s8s8s32s8:zpdata+bias+quantise+add+relu",
    "mb2ic24ih7oc40kh1:s8s8s32s8:zpdata+bias+add",
    "ic24ih9iw14oc40kh3sh2ph1:s8s8s32s32+bias",
    "ic20ih6iw1oc20kh3kw1ph1pw0:s8s8s32s8:fixed+bias",
    "ic16ih8oc24kh3ph1:s8s8s32s8+bias+quantise+hardswish",
]
# without and with dot-product instructions
each_machine = pytest.mark.parametrize("name", ["aarch64", "neoverse-n1"])


def operands_of(kernel: Kernel, seed: int = 0) -> IntegerOperands:
    """Operands of their whole range, many at the minimum, but no weights that collide.

    The first outputs have weights of one end of the range, and two corners of images such data.
    """
    found = random_integers(kernel.workload, seed)
    weight, generator = found.constants.weight.copy(), np.random.default_rng(seed)
    weight[0], weight[1] = (-128, 127) if weight.dtype == np.int8 else (-255, 255)
    if weight.dtype == np.int8:
        weight[generator.random(weight.shape) < 0.1] = -128
        upper = np.arange(weight.shape[1]) % 4 >= 2
        weight[:, upper] = np.maximum(weight[:, upper], -127)
        if kernel.workload.is_depthwise:
            # one tap of each channel may have it
            least = (weight == -128).reshape(len(weight), -1)
            weight[((least.cumsum(axis=1) > 1) & least).reshape(weight.shape)] = -127
    found.data[generator.random(found.data.shape) < 0.2] = -128
    found.data[:, :, :3, :3], found.data[:, :, -3:, -3:] = -128, 127
    return replace(found, constants=replace(found.constants, weight=weight))


def emulated(
    kernels: Sequence[Kernel],
    given: Sequence[IntegerOperands],
    folder: Path,
    *processors: Sequence[str],
    caller: Path = CALL,
) -> Iterator[list[np.ndarray]]:
    """Results of one machine's kernels, in the plain layout, a list for each processor."""
    arrays = [integer_arguments(k, o) for k, o in zip(kernels, given, strict=True)]
    functions = [kernel.prim_func() for kernel in kernels]
    machine = kernels[0].machine
    for results in run_functions(functions, arrays, machine, folder, *processors, caller=caller):
        yield [unblock(r, k.workload.out_channels) for k, r in zip(kernels, results, strict=True)]


def check(
    kernels: Sequence[Kernel], folder: Path, *processors: Sequence[str], caller: Path = CALL
) -> None:
    given = [operands_of(kernel) for kernel in kernels]
    expected = [exact_output(k.workload, o) for k, o in zip(kernels, given, strict=True)]
    assert all(len(np.unique(values)) > 25 for values in expected)
    for results in emulated(kernels, given, folder, *processors or ((),), caller=caller):
        for kernel, actual, values in zip(kernels, results, expected, strict=True):
            np.testing.assert_array_equal(actual, values, str(kernel.workload), strict=True)


def kernels_of(texts: Sequence[str], machine: Machine, algorithm: str) -> list[Kernel]:
    return [make_kernel(Conv2dWorkload.parse(text), machine, algorithm) for text in texts]


@needs_arm
@pytest.mark.parametrize(
    ("name", "direct", "depthwise", "im2col"),
    [
        ("aarch64", [1, 2, 4, 5, 7, 9, 10, 12, 14], [0, 1, 2, 4, 10], [4, 9]),
        ("neoverse-n1", [0, 1, 3, 6, 8, 11, 13], [1, 3, 5, 6, 7, 8, 9], [5, 12]),
    ],
    ids=["aarch64", "neoverse-n1"],
)
def test_kernels_of_bytes_are_exact(
    name: str, direct: list[int], depthwise: list[int], im2col: list[int], tmp_path: Path
):
    """Every layer on one machine at least; the multiplications themselves on both."""
    machine = MACHINES[name].with_cores(2)
    check(
        [
            *kernels_of([DIRECT[i] for i in direct], machine, "direct"),
            *kernels_of([DEPTHWISE[i] for i in depthwise], machine, "depthwise"),
            *kernels_of([DIRECT[i] for i in im2col], machine, "im2col"),
        ],
        tmp_path,
    )


@needs_arm
@pytest.mark.slow
@each_machine
def test_all_kernels_of_bytes_are_exact(name: str, tmp_path: Path):
    machine = MACHINES[name].with_cores(2)
    check(
        [
            *kernels_of(DIRECT, machine, "direct"),
            *kernels_of(DEPTHWISE, machine, "depthwise"),
            *kernels_of([DIRECT[i] for i in (1, 4, 5, 8, 9, 12)], machine, "im2col"),
        ],
        tmp_path,
    )


@needs_arm
def test_products_of_matrices_are_exact(tmp_path: Path):
    machine = MACHINES["neoverse-n2"].with_cores(2)
    texts = [DIRECT[i] for i in (0, 1, 4, 6, 11, 12, 13)]
    check(kernels_of(texts, machine, "direct"), tmp_path)


@needs_arm
@pytest.mark.parametrize("name", ["a64fx", "aarch64+sve"])
def test_products_of_sve_are_exact(name: str, tmp_path: Path):
    machine = SCALABLE[name].with_cores(2)
    kernels = kernels_of([*DIRECT[2:4], DIRECT[9], DIRECT[-3]], machine, "direct")
    # a row of outputs alone or with others shares dwords of rows, where 128 bits are multiplied
    layers = DEPTHWISE[1:2] if machine.exact_vector_bits else [DEPTHWISE[i] for i in (1, 5, 6, 7)]
    kernels += kernels_of(layers, machine, "depthwise")
    kernels += kernels_of(DIRECT[4:5], machine, "im2col")
    # vectors of 512 bits, and NEON without dot products
    processors = [("-cpu", "a64fx")]
    # code for any vector length adds in the order of the first 128 bits
    processors += [] if machine.exact_vector_bits else [vectors_of(128), vectors_of(2048)]
    check(kernels, tmp_path, *processors)


@needs_arm
def test_scalable_products_are_exact_at_every_vector_length(tmp_path: Path):
    machine = SCALABLE["aarch64+sve"].with_cores(2)
    kernels = [scalable_kernel(Conv2dWorkload.parse(t), machine, "direct") for t in SCALABLE_ROWS]
    # bands of positions, which end inside of vectors
    kernels.append(replace(kernels[2], config=kernels[2].config.replace(rows=9)))
    assert all(kernel.config["vectors"] for kernel in kernels)
    check(kernels, tmp_path, *map(vectors_of, (128, 256, 512, 1024, 2048, 384)))
    # every kernel's rows of accumulators end at pages that may not be touched
    check(kernels[-6:], tmp_path, *map(vectors_of, (256, 2048)), caller=HOSTILE)
    # conversions in place of additions
    converts = replace(machine, code=replace(machine.code, slow_conversions=False))
    again = [replace(kernels[i], machine=converts) for i in (0, 7, 10)]
    check(again, tmp_path, vectors_of(256), vectors_of(2048))


@needs_arm
# by additions, and by conversions
@pytest.mark.parametrize("name", ["neoverse-n1", "aarch64"])
def test_numbers_of_any_size_are_rounded_to_even(name: str, tmp_path: Path):
    ends = [2.0**k * f for k in (7, 14, 15, 21, 22, 23, 24, 31, 40) for f in (1 - 2**-23, 1.0, 1.5)]
    halves = np.arange(-600, 600) / 2
    x = np.array([*ends, *(-end for end in ends), np.inf, -np.inf, *halves], np.float32)
    x = np.resize(x, 16 * -(-len(x) // 16))
    limits = np.array([-100, 117, 10], np.float32)
    functions = [narrowing(len(x), vectors, 4, "int8", "float32") for vectors in (1, 4)]
    operands = [[x, limits, np.zeros(len(x), np.int8)]] * 2
    for results in run_functions(functions, operands, MACHINES[name], tmp_path, ()):
        for actual in results:
            np.testing.assert_array_equal(actual, np.clip(np.rint(x), -100, 117) + 10)


@needs_arm
def test_products_are_rounded_before_they_become_integers(tmp_path: Path):
    """Three sixths are a tie in FP32; in an FMA with the rounding constant they are more."""
    text = "ic8ih16oc8kh1:s8s8s32s8+bias+quantise"
    kernel = make_kernel(Conv2dWorkload.parse(text), MACHINES["neoverse-n1"], "direct")
    data = np.arange(-128, 128).astype(np.int8).reshape(1, 1, 16, 16).repeat(8, axis=1)
    weight = np.eye(8, dtype=np.int8).reshape(8, 8, 1, 1)
    scale = np.full(8, 1 / 6, np.float32)
    numbers = np.array([(0, -128, 127, 1), (1, -128, 127, 0)], np.float32).reshape(-1)
    constants = Constants(weight, np.zeros(8, np.int32), 0, scale, numbers)
    ((actual,),) = emulated([kernel], [IntegerOperands(data, constants, None)], tmp_path, ())
    expected = np.rint(data.astype(np.float32) * scale[0])
    np.testing.assert_array_equal(actual, expected)


def test_products_that_16_bits_do_not_hold_are_refused():
    workload = Conv2dWorkload.parse(DIRECT[0])
    weight = np.zeros(workload.weight_shape, np.int8)
    weight[1, [4, 5]] = -128
    without, with_dots = (
        make_kernel(workload, MACHINES[name], "direct") for name in ("cortex-a72", "neoverse-n1")
    )
    without.pack_weight(weight)
    weight[1, 6] = -128
    with pytest.raises(
        WorkloadError, match="channels 0 and 2, or 1 and 3, of a block of 4 are both -128"
    ):
        without.pack_weight(weight)
    with_dots.pack_weight(weight)


def test_taps_that_16_bits_do_not_hold_are_refused():
    workload, machine = Conv2dWorkload.parse(DEPTHWISE[0]), MACHINES["cortex-a72"]
    weight = np.zeros(workload.weight_shape, np.int8)
    weight[:, 0, 1, 2] = -128
    kernel = make_kernel(workload, machine, "depthwise")
    kernel.pack_weight(weight)
    assert not has_colliding_weights(weight, workload.groups, machine)
    weight[3, 0, 2, 0] = -128
    assert has_colliding_weights(weight, workload.groups, machine)
    with pytest.raises(WorkloadError, match="-128 in two taps of one channel"):
        kernel.pack_weight(weight)


@needs_arm
@pytest.mark.parametrize(
    ("tile", "problems"),
    [
        (2, [0, 1, 4]),
        (4, [0, 2, 3]),
        *(pytest.param(tile, range(5), marks=pytest.mark.slow) for tile in (2, 4)),
    ],
)
def test_winograd_is_exact(tile: int, problems: Sequence[int], tmp_path: Path):
    machine, kernels = MACHINES["cortex-a72"].with_cores(2), []
    for text in (WINOGRAD[i] for i in problems):
        workload = Conv2dWorkload.parse(text)
        offers = registry.offers("winograd", workload, machine)
        config = next((c for c in offers if (c["mh"], c["mw"]) == (tile, tile)), offers[-1])
        kernels.append(make_kernel(workload, machine, "winograd", config))
    check(kernels, tmp_path)
