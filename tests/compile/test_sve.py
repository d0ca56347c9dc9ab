"""Code with scalable vectors, called under qemu at several vector lengths."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tvmconv
from tests.compile.test_arm import expected, taken
from tests.emulating import CALL, HOSTILE, check_kernels, needs_arm, run_model, vectors_of
from tests.kernels import dense, scalable_kernel
from tests.small_network import mixed_network, small_network
from tests.strategies import conv2d_workloads
from tvmconv.core.config import Config
from tvmconv.core.errors import ArtifactError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.sve import MACHINES

A64FX = MACHINES["a64fx"].with_cores(2)
SCALABLE = MACHINES["aarch64+sve"].with_cores(2)
LENGTHS = (128, 256, 512, 1024, 2048)


# rows joined and not, shorter than a vector; tails of blocks; more kernel elements; every epilogue
DIRECT = (
    "mb2ic8ih7oc24kh3ph1+bias+add+relu",
    "ic12ih5iw3oc40kh3ph1+sigmoid",
    "g2ic12ih8iw9oc24kh3ph1+bias+clip(0,6)",
    "ic4ih3iw20oc36kh5ph2+leakyrelu(0.25)",
    "ic8ih6oc8kh3dh1ph2+hardswish",
    "ic7ih14oc13kh2ph1+add",
    # pixels with gaps between them: all rows joined; padding on both sides of rows
    "mb2ic8ih14oc24kh3sh2ph1+bias+relu",
    "ic5ih11iw17oc36kh5sh1sw3ph2+bias",
    "g2ic12ih10iw7oc24kh3sh2sw1ph1+silu",
    "ic8ih13oc24kh3sh3dh1ph2",
)

# rows that leave part of a tile, rows shorter than a vector; taps that reach far outside
DEPTHWISE = (
    "mb2g10ic10ih9iw11oc10kh3ph1+bias+add+relu",
    "g8ic8ih7iw3oc8kh5ph2+clip(0,6)",
    "g4ic4ih6iw19oc4kh3dh1ph2+silu",
    "g12ic12ih11iw8oc12kh3sh2sw1ph1+bias",
    # a column that every pixel of a row could read, were it not for the padding
    "g4ic4ih9iw1ow3oc4kh3ph1pw2",
)
# the second in phases of four and three rows, of three channels in a block; one column
WINOGRAD = ("ic8ih9oc16kh3ph1", "ic3ih17iw21oc16kh7sh2ph3+bias", "ic4ih12iw1oc4kh3ph1+bias")
# panels that end inside of vectors, and images inside of panels; tiles with blocks to spare
PANELS = {
    "mb2ic8ih14oc24kh3sh2ph1+bias+relu": {"oc": 4, "mr": 25, "mc": 1, "vectors": 2},
    "ic12ih9iw13oc40kh3ph1+add": {"oc": 10, "mr": 48, "mc": 0, "vectors": 2},
    "g2ic12ih10iw7oc24kh5sh1sw2ph2+silu": {"oc": 3, "mr": 20, "mc": 1, "vectors": 3},
    "ic7ih7oc13kh1+sigmoid": {"oc": 4, "mr": 24, "mc": 3, "vectors": 5},
    # fewer channels than a segment has
    "ic3ih23iw15oc24kh11sh4+relu": {"oc": 6, "mr": 2, "mc": 2, "vectors": 3},
    "ic1ih9iw10oc8kh5ph2+add": {"oc": 2, "mr": 30, "mc": 0, "vectors": 4},
}
# one and more channels, rows that end inside of tiles, gathered positions, NHWC, volumes
STEMS = (
    "ic3ih12oc16kh3ph1:nchw+bias+relu",
    "mb2ic3ih23iw15oc24kh7sh2ph3:nchw+add",
    "ic1ih9iw10oc8kh5ph2:nchw",
    "ic6ih8oc12kh3dh1ph2:nchw",
    "ic3ih9iw11oc12kh3sh2ph1:nhwc+sigmoid",
    "mb2ic3id4ih7iw8oc8kd3kh3pd1ph1:nchw",
)
# strips whose positions are gathered, and of one row, where they are neighbors
STRIPS = (
    "mb2ic8ih9oc24kh3ph1+bias+relu",
    "ic12ih10iw13oc16kh3sh2ph1+add",
    "g2ic16ih8oc24kh5ph2",
    "ic8ih7oc8kh1",
)
# by default NEON code
GATHERED = ("g8ic8ih13iw17oc8kh3sh2ph1+bias+relu", "g4ic4ih9iw11oc4kh5sh2sw3ph2")


@needs_arm
def test_fixed_length_is_right_at_that_length_and_refused_at_others(tmp_path: Path) -> None:
    kernels = [make_kernel(taken(name, A64FX)[0], A64FX, name) for name in ("direct", "depthwise")]
    with pytest.raises(ArtifactError, match=r"vectors of 512 bits \(it has 1024\), .* for a64fx"):
        check_kernels(kernels, A64FX, tmp_path, vectors_of(512), vectors_of(1024))


@needs_arm
def test_without_scalable_vectors_it_is_refused(tmp_path: Path) -> None:
    kernels = [make_kernel(taken("direct", A64FX)[0], A64FX, "direct")]
    with pytest.raises(ArtifactError, match=r"lacks .*sve.* built for a64fx"):
        check_kernels(kernels, A64FX, tmp_path, ("-cpu", "cortex-a72"))


@needs_arm
@pytest.mark.slow
def test_every_algorithm_at_fixed_length(tmp_path: Path) -> None:
    names = registry.names()
    kernels = [make_kernel(w, A64FX, name) for name in names for w in taken(name, A64FX)[:3]]
    check_kernels(kernels, A64FX, tmp_path, vectors_of(512))


@needs_arm
def test_convolutions_at_every_vector_length(tmp_path: Path) -> None:
    layers = {"direct": DIRECT, "winograd": WINOGRAD, "depthwise": DEPTHWISE}
    layers |= {"direct_first": STEMS, "im2win": STRIPS}
    kernels = [
        scalable_kernel(Conv2dWorkload.parse(text), SCALABLE, name)
        for name, texts in layers.items()
        for text in texts
    ]
    tiles = ({"tile_h": 3, "vectors": 1}, {"tile_h": 1, "vectors": 2})
    for text in GATHERED:
        kernel = make_kernel(Conv2dWorkload.parse(text), SCALABLE, "depthwise")
        configs = (kernel.config.replace(tile_w=1, **tile) for tile in tiles)
        kernels += [replace(kernel, config=config) for config in configs]
    for text, knobs in PANELS.items():
        config = Config.of(kc=0, **knobs)
        kernels.append(make_kernel(Conv2dWorkload.parse(text), SCALABLE, "im2col", config))
    assert all(kernel.config["vectors"] for kernel in kernels)
    # a length other than a power of two
    check_kernels(kernels, SCALABLE, tmp_path, *map(vectors_of, (*LENGTHS, 384)))


@needs_arm
@pytest.mark.parametrize("network", [small_network, mixed_network])
def test_one_file_for_every_vector_length(network: Any, tmp_path: Path) -> None:
    onnx_model = network()
    shape = [d.dim_value for d in onnx_model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    model = tvmconv.build(onnx_model, "aarch64+sve", threads=2, log="none")
    # test_convolutions_at_every_vector_length has the others
    callers = ((128, CALL), (256, HOSTILE), (2048, CALL))
    for bits, caller in callers:
        (actual,) = run_model(model, tmp_path, x, options=vectors_of(bits), caller=caller)
        said = f"{bits} bits, {caller.name}"
        np.testing.assert_allclose(actual, expected(onnx_model, x), atol=1e-6, err_msg=said)


@needs_arm
def test_tasks_keep_to_their_own_pixels(tmp_path: Path) -> None:
    """No task writes or reads another's memory, beyond operands, or what nobody has written."""
    kernels = [make_kernel(Conv2dWorkload.parse(text), SCALABLE, "direct") for text in DIRECT[:3]]
    # bands of a row, which end inside of vectors
    bands = Config.of(oc=2, oh=1, ow=1, rows=1, vectors=2)
    kernels.append(make_kernel(kernels[0].workload, SCALABLE, "direct", bands))
    kernels.append(make_kernel(Conv2dWorkload.parse("ic8ih9oc16kh3ph1"), SCALABLE, "winograd"))
    for text in ("mb2ic8ih14oc24kh3sh2ph1+bias+relu", "ic12ih9iw13oc24kh1sh2+add"):
        workload = Conv2dWorkload.parse(text)
        kernels.append(make_kernel(workload, SCALABLE, "direct"))
        panels = Config.of(oc=4, mr=13, mc=0, kc=0, vectors=2)
        kernels.append(make_kernel(workload, SCALABLE, "im2col", panels))
    for text, name in ((STEMS[1], "direct_first"), (STRIPS[1], "im2win")):
        kernels.append(scalable_kernel(Conv2dWorkload.parse(text), SCALABLE, name))
    check_kernels(kernels, SCALABLE, tmp_path, *map(vectors_of, (256, 2048)), caller=HOSTILE)


@needs_arm
@pytest.mark.slow
@pytest.mark.parametrize("caller", [CALL, HOSTILE], ids=lambda path: path.stem)
def test_every_algorithm_at_every_vector_length(caller: Path, tmp_path: Path) -> None:
    names = registry.names()
    kernels = [
        make_kernel(w, SCALABLE, name, config)
        for name in names
        for w in taken(name, SCALABLE)[:3]
        for config in (registry.offers(name, w, SCALABLE) or (None,))
    ]
    check_kernels(kernels, SCALABLE, tmp_path, *map(vectors_of, LENGTHS), caller=caller)


@needs_arm
@pytest.mark.slow
@settings(max_examples=25)
@given(workload=conv2d_workloads(max_size=24).filter(dense), oc=st.integers(1, 8))
def test_any_layer_at_every_vector_length(workload: Conv2dWorkload, oc: int) -> None:
    if registry.algorithm("direct").unsupported(workload, SCALABLE) is not None:
        return
    kernel = make_kernel(workload, SCALABLE, "direct")
    if not kernel.config["vectors"]:
        return
    oc = min(oc, SCALABLE.blocks(workload.out_channels))
    other = replace(kernel, config=kernel.config.replace(oc=oc, vectors=3))
    with tempfile.TemporaryDirectory() as folder:
        check_kernels([kernel, other], SCALABLE, Path(folder), *map(vectors_of, LENGTHS))
