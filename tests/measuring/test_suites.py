"""The shipped layer suites and their text form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.measuring import suites

# convolutions, and their MACs in millions. The networks' papers and model zoos state them
# (torchvision's table for ResNet, VGG, AlexNet and MobileNetV2)
NETWORKS = {
    "alexnet": (5, 656),
    "vgg16": (13, 15346),
    "resnet18": (20, 1814),
    "resnet50": (53, 4087),
    "mobilenetv1": (27, 568),
    "mobilenetv2": (52, 300),
    "googlenet": (57, 1582),
    "squeezenet": (26, 349),
}


OTHER = ("sgemm", "poolings", "integer_products")


@pytest.mark.parametrize("name", [name for name in suites.names() if name not in OTHER])
def test_every_line_parses_to_the_string_it_shows(name):
    layers = suites.load(name)
    assert len({layer.name for layer in layers}) == len(layers)
    for layer in layers:
        assert Conv2dWorkload.parse(str(layer.workload)) == layer.workload
        # first layers are the only ones that see the model's plain layout
        few = layer.workload.in_channels <= 3
        assert layer.workload.data_layout == ("NCHW" if few else "NCHWc")


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_whole(name):
    layers = suites.load(name)
    count, millions = NETWORKS[name]
    assert sum(layer.count for layer in layers) == count
    macs = sum(layer.count * layer.workload.macs for layer in layers)
    assert macs / 1e6 == pytest.approx(millions, rel=0.01)


def test_dnn12_is_the_unpadded_benchmark():
    layers = suites.load("dnn12")
    assert [layer.name for layer in layers] == [f"conv{i}" for i in range(1, 13)]
    assert not any(layer.workload.has_padding for layer in layers)


def test_ftengine_has_the_operations_that_its_tables_give():
    layers = {layer.name: layer.workload for layer in suites.load("ftengine")}
    printed = (0.211, 0.896, 0.299, 0.449, 0.299, 0.173, 3.699, 1.850, 3.699, 1.850, 3.699,
               1.850, 3.699, 0.925)  # fmt: skip
    assert list(layers) == [f"A{i}" for i in range(1, 6)] + [f"V{i}" for i in range(1, 10)]
    assert [w.flops * 1e-9 for w in layers.values()] == pytest.approx(printed, abs=6e-4)


def test_winograd16_has_the_tiles_that_its_paper_counts():
    workloads = [layer.workload for layer in suites.load("winograd16")]
    assert all((w.kernel_h, w.stride_h, w.pad_top) == (3, 1, 1) for w in workloads)
    tiles = [(-(-w.out_height // 4)) ** 2 for w in workloads]
    printed = [3136, 3136, 784, 784, 196, 196, 49, 49, 16, 16, 16, 16, 196, 49, 16, 4]
    assert tiles == printed


def test_quantized_winograd_has_the_products_that_its_paper_counts():
    layers = suites.load("quantised_winograd")
    products = [(((w.out_height + 1) // 2) ** 2, w.in_channels, w.out_channels)
                for w in (layer.workload for layer in layers)]  # fmt: skip
    assert products[:3] == [(12544, 3, 64), (12544, 64, 64), (3136, 64, 128)]
    assert products[-4:] == [(784, 64, 64), (196, 128, 128), (49, 256, 256), (16, 512, 512)]
    assert [layer.count for layer in layers] == [1, 1, 1, 1, 1, 3, 1, 3, 4, 4, 3, 3, 3]


def test_sgemm_holds_the_sizes_of_its_paper():
    problems = suites.load_problems("sgemm")
    sizes = [problem.workload.m for problem in problems]
    assert sizes == [512, *range(1024, 8193, 1024)]
    assert all(p.workload.m == p.workload.n == p.workload.k for p in problems)
    assert [problem.name for problem in problems] == [str(size) for size in sizes]


def test_products_are_no_convolutions():
    with pytest.raises(WorkloadError, match="matrix product"):
        suites.load("sgemm")
    with pytest.raises(WorkloadError, match="matrix product"):
        suites.parse_layer("gemm:m8n8k8")


def test_another_batch_is_part_of_the_name():
    layer = suites.with_batch(suites.load("dnn12")[3], 128)
    assert (layer.name, layer.workload.batch) == ("conv4 mb128", 128)
    assert layer.workload.flops == pytest.approx(610.4e9, rel=1e-3)
    bare = suites.with_batch(suites.parse_layer("ic8ih9oc8kh3"), 2)
    assert bare.name == str(bare.workload)


def test_a_file_of_ones_own(tmp_path: Path):
    path = tmp_path / "mine.txt"
    path.write_text('# two layers\nic8ih9oc8kh3ph1 n"first*3"\n\nmb2ic8ih9oc8kh1+relu  # bare\n')
    first, second = suites.load(str(path))
    assert (first.name, first.count, first.workload.kernel_h) == ("first", 3, 3)
    assert second.name == str(second.workload) == "mb2ic8ih9iw9oc8oh9ow9kh1kw1+relu"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ic8ih9oc8kh3 name", "line 1"),
        ("ic8ih9oc8kh3\nic8ih9", "line 2"),
        ("# nothing\n", "holds no layer"),
        ('ic8ih9oc8kh3 n"a*0"', "line 1"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, message: str):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=message) as caught:
        suites.load(str(path))
    assert "bad.txt" in str(caught.value)


def test_unknown_suite_lists_the_known_ones():
    with pytest.raises(WorkloadError, match="resnet50"):
        suites.load("resnet51")
