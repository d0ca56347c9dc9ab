"""Accuracy by algorithm and precision, Table 3.1 of the source: ``python -m examples.accuracy``.

A ResNet-18 of ten classes of textures and shapes, in numpy: direct and Winograd convolution with
every intermediate rounded, then 8 bits in integers, where all algorithms give the same logits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

import numpy as np

from examples.accuracy import integers, rounded
from examples.accuracy.checkpoint import read_checkpoint
from examples.accuracy.dataset import CALIBRATION, TEST, Labels, dataset
from examples.accuracy.network import Floats, Layers, evaluate, read_layers
from examples.accuracy.runtimes import RUNTIMES, quantised_logits
from examples.quantise.__main__ import positive
from tvmconv.core.errors import TvmconvError

TILES = {"direct": 0, "F(2x2, 3x3)": 2, "F(4x4, 3x3)": 4, "F(6x6, 3x3)": 6}
BITS = (rounded.FLOAT, 16, 8)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except TvmconvError as error:
        print(f"accuracy: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    model = read_checkpoint()
    layers = read_layers(model)
    images, labels = dataset(TEST, options.images)
    calibration, _ = dataset(CALIBRATION, options.calibration)
    print(f"{options.images} test images, {options.calibration} for calibration; % named rightly\n")
    if "rounded" in options.parts:
        _print_row("every intermediate rounded", (f"{bits} bit" for bits in BITS))
        _print_row("---", ["--:"] * len(BITS))
        for name, tile in TILES.items():
            shares = rounded_shares(layers, tile, images, labels, calibration)
            _print_row(name, (f"{share:.2f}" for share in shares))
        print()
    if "integers" in options.parts:
        _print_row("8 bit in integers", ("", "logits"))
        _print_row("---", ("--:", "---"))
        for name, share in integer_shares(layers, images, labels, calibration).items():
            _print_row(name, (f"{share:.2f}", "" if name == "direct" else "those of direct"))
        print()
    if options.through:
        _print_row("8-bit model", ("", "logits that differ"))
        _print_row("---", ("--:", "--:"))
        all_logits = quantised_logits(model, calibration, images, options.through)
        for name, logits in all_logits.items():
            different = np.mean(logits != all_logits[options.through[0]])
            _print_row(name, (f"{_share(logits, labels):.2f}", f"{different:.2%}"))


def rounded_shares(
    layers: Layers, tile: int, images: Floats, labels: Labels, calibration: Floats
) -> list[float]:
    """Percent of images named rightly, with all intermediates of each of :data:`BITS`."""
    ranges = rounded.observe(layers, tile, calibration)
    return [
        _share(evaluate(layers, images, rounded.Rounded(layers, tile, bits, ranges)), labels)
        for bits in BITS
    ]


def integer_shares(
    layers: Layers, images: Floats, labels: Labels, calibration: Floats
) -> dict[str, float]:
    """Percent of images named rightly by algorithm, computed in integers.

    Raises
    ------
    AssertionError
        If a logit of Winograd convolution is not direct convolution's to the last bit.
    """
    ranges = integers.observe(layers, calibration)
    shares: dict[str, float] = {}
    direct = None
    for name, tile in TILES.items():
        if tile and tile not in integers.EXACT:
            continue
        logits = evaluate(layers, images, integers.InBytes(layers, tile, ranges))
        direct = logits if direct is None else direct
        assert np.array_equal(logits, direct), f"{name} differs from direct convolution"
        shares[name] = _share(logits, labels)
    return shares


def _share(logits: Floats, labels: Labels) -> float:
    return 100 * float(np.mean(logits.argmax(1) == labels))


def _print_row(name: str, cells: Iterable[str]) -> None:
    print(f"| {' | '.join([name, *cells])} |", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.accuracy", description=__doc__)
    parser.add_argument("--images", type=positive, default=2000, help="test images")
    parser.add_argument("--calibration", type=positive, default=200, help="images that give ranges")
    parser.add_argument(
        "--parts", nargs="*", choices=("rounded", "integers"), default=("rounded", "integers")
    )
    parser.add_argument(
        "--through",
        nargs="+",
        choices=RUNTIMES,
        default=(),
        help="what also runs the 8-bit model that examples.quantise makes",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
