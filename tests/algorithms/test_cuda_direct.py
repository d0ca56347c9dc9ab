"""Direct convolution of GPUs against float64, executed from its CUDA source on the processor."""

from __future__ import annotations

import pytest

from tests.cuda import SM_90, check_kernel
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.selection.select import candidates


@pytest.mark.parametrize(
    ("problem", "share"),
    [
        ("mb2ic5ih7oc6kh3sh2ph1+bias+add+relu", 1),
        ("ic480ih1oc20kh1+bias+relu", 64),
        ("mb2ic37ih3oc9kh3+bias+add+relu", 32),
        ("g2ic40ih5iw4oc6kh3sh2ph1+bias", 128),
        ("ic70id3ih3oc5kd3kh3+bias", 256),
        ("mb3ic33ih1oc1kh1", 32),
    ],
)
def test_layers(problem, share):
    check_kernel(problem, "direct", share=share)


def test_few_values_of_long_sums_are_shared():
    def share(problem):
        (offer,) = candidates(Conv2dWorkload.parse(problem), SM_90, "direct")
        return offer.config["share"]

    assert share("ic1280ih1oc1000kh1+bias") > 1
    assert share("ic512ih7oc4096kh7+bias+relu") >= 64
    # a block for each sum takes longer to start than many threads take with a sum each
    assert share("ic192ih28oc32kh1+bias") == 1
    # few kernel elements or enough values leave nothing to gain
    assert share("ic20ih1oc480kh1+bias") == 1
    assert share("mb32ic64ih56oc64kh3ph1") == 1


@pytest.mark.parametrize("name", registry.OF_KIND["cuda"])
def test_arrays_that_32_bits_do_not_number_are_refused(name):
    """Their kernels had launches of a negative grid, or TVM ended in an error of its own."""
    for problem in ("mb128ic64ih513oc64kh3ph1", "g64mb128ic64ih513oc64kh3ph1"):
        workload = Conv2dWorkload.parse(problem)
        assert registry.unavailable(name, workload, SM_90), problem
    fits = Conv2dWorkload.parse("mb127ic64ih512oc64kh3ph1")
    assert not registry.unavailable("direct", fits, SM_90)
    large = Conv2dWorkload.parse("mb128ic64ih513oc64kh3ph1")
    reason = registry.unavailable("direct", large, SM_90)
    assert "an array of it has 2155880448 values, and kernels for GPUs index 2147483647" in reason


def test_parts_of_a_sum_that_32_bits_do_not_number_are_refused():
    workload = Conv2dWorkload.parse("mb128ic3ih224oc64kh7ph3")
    config = registry.default_config("implicit_gemm", workload, SM_90)
    config = config.replace(slice="row", k=21, split=1)
    registry.check("implicit_gemm", workload, SM_90, config)
    with pytest.raises(ConfigError, match="makes parts of 2877292544 values"):
        registry.check("implicit_gemm", workload, SM_90, config.replace(split=7))


def test_parts_of_warps_are_refused():
    workload = Conv2dWorkload.parse("ic480ih1oc20kh1")
    config = registry.default_config("direct", workload, SM_90)
    with pytest.raises(ConfigError, match=r"share=48 .* Expected a multiple of 32 up to 1024"):
        registry.check("direct", workload, SM_90, config.replace(share=48))


def test_a_block_size_divides_the_results_where_one_does():
    """A test of the last block inside of the loop took ten times as long on an H200."""

    def threads(problem):
        (offer,) = candidates(Conv2dWorkload.parse(problem), SM_90, "direct")
        return offer.config["threads"]

    assert threads("ic16ih7oc960kh1") == 64
    assert threads("ic16ih7oc32kh1") == 32
    assert threads("ic16ih14oc96kh1") == 128
