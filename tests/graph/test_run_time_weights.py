"""Convolutions of run-time weights that are products of the weights and the windows."""

from __future__ import annotations

from tests.graph.network import Net, check
from tvmconv.model import CompiledModel


def products(model: CompiledModel) -> int:
    return sum(call.operator.startswith("matmul") for call in model.calls)


def test_small_and_strided_images_are_products_of_their_windows():
    net = Net(1, 64, 7, 9)
    padded = net.op("Conv", "x", net.input("w", 40, 64, 3, 3), net.random(40), pads=[1, 0, 2, 1])
    strided = net.op("Conv", "x", net.input("v", 65, 64, 1, 1), strides=[2, 2])
    apart = net.op("Conv", "x", net.input("u", 65, 64, 2, 3), strides=[2, 1], dilations=[1, 2])
    compiled = check(net.model(net.op("Relu", padded), strided, apart), threads=2)
    # the padded one may be faster by vectors of positions, which depends on the processor
    assert products(compiled) >= 2 and not compiled.unscheduled


def test_volumes_and_transposed_convolutions_are_not_plain_loops():
    net = Net(2, 6, 5, 6, 7)
    window = {"strides": [2, 1, 1], "pads": [1, 0, 1, 2, 1, 0], "dilations": [2, 1, 1]}
    volume = net.op("Conv", "x", net.input("w", 4, 3, 2, 3, 2), group=2, **window)
    plane = net.input("image", 2, 6, 5, 7)
    window = {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0], "group": 2}
    grown = net.op("ConvTranspose", plane, net.input("v", 6, 2, 3, 2), net.random(4), **window)
    compiled = check(net.model(volume, grown))
    assert products(compiled) == 1 and not compiled.unscheduled


def test_transposed_convolutions_without_overlap_add_the_bias_to_the_product():
    net = Net(2, 6, 5, 18)
    window = {"strides": [2, 2], "group": 2}
    whole = net.op("ConvTranspose", "x", net.input("w", 6, 2, 2, 2), net.random(4), **window)
    cropped = net.op(
        "ConvTranspose", "x", net.input("v", 6, 3, 3, 1), net.input("b", 3), strides=[3, 1],
        pads=[1, 0, 0, 2],
    )  # fmt: skip
    row = net.input("row", 1, 3, 7)
    row = net.op("ConvTranspose", row, net.input("u", 3, 2, 2), net.random(2), strides=[2])
    filled = net.op(
        "ConvTranspose", "x", net.input("t", 6, 2, 2, 2), net.random(2), strides=[2, 2],
        output_padding=[1, 0],
    )  # fmt: skip
    compiled = check(net.model(whole, cropped, row, filled))
    assert sum(call.operator == "matmul+add" for call in compiled.calls) == 3
    assert not compiled.unscheduled
