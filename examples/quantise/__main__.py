"""Quantise a float32 ONNX model to 8 bits: ``python -m examples.quantise resnet18.onnx``."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

import onnx
from onnx import ModelProto

from examples.quantise.images import random_images, read_images
from examples.quantise.model import Recipe, model_input, quantise
from tvmconv.core.errors import InputError, ModelError, TvmconvError
from tvmconv.core.files import check_destination, replacing


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    output = options.output or options.model.with_suffix(".int8.onnx")
    try:
        _run(options, output)
    except TvmconvError as error:
        print(f"quantise: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace, output: Path) -> None:
    recipe = Recipe(
        options.format,
        options.activations,
        options.weights,
        not options.per_tensor,
        options.calibration,
        options.percentile,
    )
    check_destination(output)
    model = _read(options.model)
    if output.exists() and output.samefile(options.model):
        raise InputError(f"{output} is the model itself; name another file by -o")
    try:
        shape = model_input(model).shape
        if options.images:
            images = read_images(options.images, shape)[: options.count]
        else:
            count = max(options.count or 8, model_input(model).batch)
            images = random_images(shape, count, options.seed)
        result = quantise(model, images, recipe)
    except ModelError as error:
        raise ModelError(f"{options.model}: {error}") from None
    content = result.SerializeToString()
    with replacing({output: 0o666}) as (descriptor,), os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    counts = Counter(node.op_type for node in result.graph.node)
    operators = ", ".join(f"{n} {name}" for name, n in counts.most_common())
    print(f"{output}: {len(content):,} bytes, {operators}")


def _read(path: Path) -> ModelProto:
    if not path.is_file():
        raise ModelError(f"{path} is not a file; python -m examples.networks writes some")
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    # protobuf, onnx's C++ and file errors have nothing in common
    except Exception as error:
        raise ModelError(f"{path} is no valid ONNX model: {error}") from None
    return model


def positive(text: str) -> int:
    """The number of an option that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 50 < value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 50 and up to 100")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.quantise", description=__doc__)
    parser.add_argument("model", type=Path, help="a float32 model in ONNX")
    parser.add_argument("-o", "--output", type=Path, help="default: MODEL.int8.onnx")
    parser.add_argument("--format", choices=("qdq", "qoperator"), default="qdq")
    parser.add_argument("--activations", choices=("u8", "s8"), default="u8")
    parser.add_argument("--weights", choices=("u8", "s8"), default="s8")
    parser.add_argument(
        "--per-tensor", action="store_true", help="one scale for a weight, not one for each channel"
    )
    parser.add_argument(
        "--calibration", choices=("minmax", "entropy", "percentile"), default="minmax"
    )
    parser.add_argument("--percentile", type=_percent, default=99.99, help="values in the range")
    parser.add_argument(
        "--images", type=Path, help="folder of .npy, or .npz; default: seeded random images"
    )
    parser.add_argument("--count", type=positive, help="images taken; default: all, or 8 random")
    parser.add_argument("--seed", type=int, default=0, help="fixes random images")
    return parser


if __name__ == "__main__":
    sys.exit(main())
