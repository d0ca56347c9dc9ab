"""Selections for the layers of all suites on sm_90: tiles full of FMAs, by the cost model.

docs/notes/kernels-cuda.md has the same exceptions, with their reasons.
"""

from __future__ import annotations

import pytest

from tests.cuda import SM_90
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import tiles as cuda_tiles
from tvmconv.costs.cuda import winograd as cuda_winograd
from tvmconv.costs.cuda.constants import FULL, WAIT
from tvmconv.kernels.kernel import Kernel
from tvmconv.measuring.suites import Layer, load_problems, names, with_batch
from tvmconv.selection.select import select

# padded first layers, at all batches but AlexNet's
FIRST = {
    "ftengine V1": 0.871,
    "mobilenetv1 3x3_3_224_32_s2": 0.791,
    "mobilenetv2 3x3_3_224_32_s2": 0.791,
    "vgg16 3x3_3_224_64": 0.871,
    "winograd16 VGG16 Conv1.1": 0.871,
}
FIRST_7X7 = (
    "googlenet 7x7_3_224_64_s2",
    "resnet18 7x7_3_224_64_s2",
    "resnet50 7x7_3_224_64_s2",
)
MANY = {**FIRST, **dict.fromkeys(FIRST_7X7, 0.877), "alexnet 11x11_3_224_64_s4": 0.880}
# by batch, layers below 0.88, and their shares
EXCEPTIONS = {
    1: {
        **FIRST,
        **dict.fromkeys(FIRST_7X7, 0.8),
        "dnn12 conv2": 0.848,
        "dnn12 conv3": 0.843,
        "squeezenet 3x3_3_224_64_s2": 0.846,
        "googlenet 1x1_192_28_96": 0.877,
        "googlenet 5x5_16_28_32": 0.872,
        "googlenet 3x3_96_14_208": 0.872,
        "googlenet 3x3_160_7_320": 0.872,
        "googlenet 3x3_112_14_224": 0.868,
        "squeezenet 3x3_48_13_192": 0.794,
        "resnet18 3x3_128_28_256_s2": 0.82,
        "resnet18 3x3_256_14_512_s2": 0.868,
        "squeezenet 3x3_16_55_64": 0.82,
        "googlenet 5x5_16_14_48": 0.872,
        "googlenet 1x1_528_14_160": 0.877,
        "googlenet 1x1_528_14_32": 0.877,
        "mobilenetv2 1x1_144_56_24": 0.877,
        "mobilenetv2 1x1_576_14_96": 0.877,
        "mobilenetv2 1x1_576_7_160": 0.859,
        "resnet18 1x1_256_14_512_s2": 0.88,
        "squeezenet 1x1_64_55_16": 0.88,
        "squeezenet 1x1_128_55_16": 0.88,
        "squeezenet 1x1_256_27_32": 0.88,
        "squeezenet 1x1_256_13_48": 0.859,
        "squeezenet 1x1_384_13_48": 0.88,
        "squeezenet 1x1_384_13_64": 0.88,
        "squeezenet 1x1_512_13_64": 0.88,
    },
    32: {**MANY, "googlenet 5x5_16_28_32": 0.868},
    128: MANY,
}


def share_of(kernel: Kernel) -> float | None:
    """FMAs of the main loop over its instructions; None where it has no tiles."""
    workload, config = kernel.workload, kernel.config
    if kernel.algorithm == "winograd":
        products, issued = cuda_winograd.loop_instructions(workload, SM_90, config)
        return products / (issued - WAIT)
    if kernel.algorithm in ("implicit_gemm", "im2win", "im2col"):
        return cuda_tiles.loop_share(kernel.expression, workload, config)
    assert kernel.algorithm in ("depthwise", "direct")
    return None


# layers of reports are unusual ones
SUITES = sorted(set(names()) - {"reported"})
# these have exceptions of each kind: first layers, few pixels, few channels, strides
FEW = ["dnn12", "resnet18", "squeezenet"]


# one image has nearly all exceptions of batches, and its own
@pytest.mark.parametrize(
    ("batch", "suites"),
    [
        pytest.param(1, FEW, id="1"),
        *(pytest.param(n, SUITES, id=f"{n}-all", marks=pytest.mark.slow) for n in (1, 32, 128)),
    ],
)
def test_main_loops_are_full_of_multiply_adds_but_of_the_layers_that_are_named(batch, suites):
    known: dict[Conv2dWorkload, float | None] = {}
    found = {}
    for suite in suites:
        for layer in load_problems(suite):
            if not isinstance(layer, Layer) or layer.workload.types.is_integer:
                continue
            workload = with_batch(layer, batch).workload
            if workload not in known:
                chosen = select(workload, SM_90).chosen
                kernel = Kernel(workload, SM_90, chosen.algorithm, chosen.config)
                known[workload] = share_of(kernel)
            if (share := known[workload]) is not None and share < FULL:
                found[f"{suite} {layer.name}"] = round(share, 3)
    assert len(known) > (30 if suites == FEW else 150)
    named = {name: share for name, share in EXCEPTIONS[batch].items() if name.split()[0] in suites}
    assert found == named
