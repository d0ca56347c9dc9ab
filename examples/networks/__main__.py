"""Write one of the example networks to an ONNX file: ``python -m examples.networks resnet50``."""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx

from examples.networks import NETWORKS, parameter_count
from examples.networks.features import Size


def _size(text: str) -> Size:
    """``224`` or ``32x100`` (height x width)."""
    try:
        numbers = [int(part) for part in text.split("x")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a size such as 224 nor 32x100")
    return (numbers[0], numbers[-1])


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.networks", description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("-o", "--output", type=Path, help="default: NETWORK.onnx")
    parser.add_argument("--image", type=_size, help="224 or 32x100; default: the network's own")
    parser.add_argument("--width", type=float, default=1.0, help="factor on channel counts")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="fixes every weight")
    options = parser.parse_args(arguments)
    sizes = {"image": options.image} if options.image else {}
    model = NETWORKS[options.network](
        width=options.width, batch=options.batch, seed=options.seed, **sizes
    )
    path = options.output or Path(f"{options.network}.onnx")
    onnx.save(model, path)
    print(f"{path}: {parameter_count(model):,} parameters, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
