"""Names that --algorithms accepts, and the kernels that they select."""

from __future__ import annotations

import pytest

from tests.tuning import examples
from tvmconv.core.errors import ConfigError, InputError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.lab.bench.variants import Variant, chosen_kernel, parse_variants
from tvmconv.machines.cuda import MACHINES as CUDA_MACHINES
from tvmconv.machines.x86 import MACHINES
from tvmconv.records import logfile
from tvmconv.selection.select import select

V3, V4 = MACHINES["x86-64-v3"], MACHINES["x86-64-v4"]
BLOCKED = Conv2dWorkload.parse("ic64ih28oc64kh3ph1")
FIRST = Conv2dWorkload.parse("ic3ih32oc16kh7sh2:nchw")
DEPTHWISE = Conv2dWorkload.parse("g32ic32ih14oc32kh3ph1")


def names(text: str, *workloads: Conv2dWorkload) -> list[str]:
    return [str(v) for v in parse_variants(text, workloads or (BLOCKED,), V4)]


def test_default_is_what_computes_the_layers_as_they_are():
    assert {"direct", "im2col", "im2win", "winograd"} <= set(names(""))
    assert "im2win_nchw" not in names("")
    assert "depthwise" in names("", BLOCKED, DEPTHWISE)


def test_all_reads_the_other_layout_where_it_must():
    assert {"direct", "direct_first", "im2win_nchw", "winograd"} <= set(names("all"))
    (variant,) = parse_variants("im2win_nchw", [BLOCKED], V4)
    assert variant.kernel(BLOCKED, V4).workload.data_layout == "NCHW"
    assert variant.kernel(FIRST, V4).workload == FIRST


def test_steps_of_a_paper():
    levels = ("base", "reorder", "vector", "unroll", "register", "cache", "parallel")
    assert names("im2win_nchw:steps") == [f"im2win_nchw:level={level}" for level in levels]
    assert names("im2win_nchw:steps") == names("im2win_nchw:level=all")
    forms = ["direct_naive:variant=naive", "direct_naive:variant=reordered", "direct"]
    assert names("direct:steps,im2col:steps") == [*forms, "im2col", "im2col:mc=0"]
    assert set(names("direct:steps")) <= set(names("all:steps"))


GPU_LAYERS = ["mb2ic3ih32oc16kh7sh2", "mb128ic64ih56oc96kh3ph1+bias+relu", "ic512ih7oc512kh3"]


@pytest.mark.parametrize("problem", GPU_LAYERS)
def test_the_ablation_of_im2win_on_gpus(problem):
    """Every step but the last has the window tensor, and lacks one thing of the whole."""
    workload, machine = Conv2dWorkload.parse(problem), CUDA_MACHINES["cuda:sm_90"]
    steps = parse_variants("im2win:steps", [workload], machine)
    configs = [variant.kernel(workload, machine).config for variant in steps]
    base, *less, whole, fused = configs
    assert [c["windows"] for c in configs] == ["stored"] * 5 + ["fused"]
    assert [c["kernel"] for c in configs] == ["base"] + ["tiled"] * 5
    assert (whole["vector"], whole["micro"], whole["pipeline"]) == (4, 1, "double")
    assert (base["m"], base["p"], less[0]["m"], less[0]["p"]) == (32, 32, 32, 32)
    tile = {"m": 32, "p": 32, "split": 1}
    for config, without in zip(
        less, ({"micro": 0, **tile}, {"vector": 1}, {"pipeline": "none"}), strict=True
    ):
        assert dict(config) == {**whole, **without}
    assert fused == registry.offers("im2win", workload, machine)[0]


def test_values_combine_and_names_can_be_left_out():
    assert names("winograd:mh=2/4:mw=3") == ["winograd:mh=2:mw=3", "winograd:mh=4:mw=3"]
    assert names("im2col:mc=0:layout=nchw/nchwc") == [
        "im2col:mc=0:layout=nchw",
        "im2col:mc=0:layout=nchwc",
    ]
    assert set(names("all")) - set(names("all,-winograd")) == {"winograd"}
    assert set(names("")) - set(names("-im2col")) == {"im2col"}


@pytest.mark.parametrize("machine", [V3, V4], ids=str)
def test_knobs_are_completed_by_the_nearest_offer(machine):
    kernel = Variant("winograd", (("mh", 6), ("mw", 6))).kernel(BLOCKED, machine)
    assert (kernel.config["mh"], kernel.config["mw"]) == (6, 6)
    assert kernel.config["rt"]
    assert Variant("im2col", (("mc", 0),)).kernel(BLOCKED, machine).config["mc"] == 0


def test_other_knobs_come_from_an_offer_that_allows_the_fixed_ones():
    """The nearest one has regions for more tiles than the four that cover 7x7."""
    workload = Conv2dWorkload.parse("ic512ih7oc512kh3ph1")
    (variant,) = parse_variants("winograd:mh=6:mw=6", [workload], V3)
    config = variant.kernel(workload, V3).config
    assert (config["mh"], config["mw"]) == (6, 6)


def test_a_log_changes_what_a_build_takes(tmp_path):
    untuned = chosen_kernel(examples.SMALL, examples.V3, "none")
    chosen = select(examples.SMALL, examples.V3).chosen
    assert (untuned.algorithm, untuned.config) == (chosen.algorithm, chosen.config)
    better = examples.default(examples.SMALL, examples.V3).replace(ow=2)
    log = tmp_path / "log.jsonl"
    record = examples.record(
        examples.SMALL, examples.V3, knobs={"ow": 2}, seconds=1e-6, default_seconds=1.0
    )
    logfile.append(log, [record.to_line()])
    tuned = chosen_kernel(examples.SMALL, examples.V3, str(log))
    assert (tuned.algorithm, tuned.config) == ("direct", better)


def test_variants_survive_the_way_to_a_worker():
    variant = Variant("winograd", (("mh", 2), ("fused", 0)), "NCHWc", adapts=True, named=True)
    assert Variant.from_json(variant.to_json()) == variant


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("nope", InputError, "unknown algorithm 'nope'.*algorithms are depthwise, direct"),
        ("-nope", InputError, "unknown algorithm 'nope'"),
        ("direct:oc", InputError, "cannot read 'oc' of direct"),
        ("im2col:layout=hwc", InputError, "layout=hwc must be one of nchw, nhwc, nchwc"),
        ("winograd:foo=all", InputError, "no knob 'foo'; it has mh, mw"),
        ("winograd:foo=2", ConfigError, "unknown knob.* foo; this schedule has"),
        ("winograd:mh=9", ConfigError, r"mh=9 .* \(values: mh: 2, 3, 4, 5, 6\)"),
        ("direct:oc=40", ConfigError, r"vector registers.*\(values: oc: 1, 2, 3, 4\)"),
        ("im2win_nchw:level=best", ConfigError, "values: level: base, reorder, vector"),
        ("depthwise", ConfigError, "cannot compute"),
    ],
)
def test_errors_name_knob_and_legal_values(text, error, message):
    with pytest.raises(error, match=message):
        parse_variants(text, [BLOCKED], V4)


def test_a_layer_that_no_algorithm_computes_is_refused_with_the_reasons():
    workload = Conv2dWorkload.parse("ic16ih8oc16kh3:f16f16f32f16")
    with pytest.raises(ConfigError, match=r"^no allowed algorithm computes .*f16f16f32f16 \("):
        parse_variants("", [workload], V4)
