"""Build a network for this machine, compare it with onnxruntime, save it, use it elsewhere.

``sh examples/quickstart.sh`` sets up an environment in .venv (TVMCONV_VENV names another place)
and runs this file. Nothing is downloaded but the packages, about 200 MB: the network comes from
``examples.networks``, with random weights. It takes a few minutes. The folder gets the model,
the shared object and a text file with all tables.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# of examples.networks, which needs what is not installed where only the help is asked for
NETWORKS = (
    *("lenet", "alexnet", "alexnet_2012", "vgg16", "vgg19", "resnet18", "resnet50"),
    *("mobilenet_v1", "mobilenet_v2", "squeezenet1_1", "googlenet", "inception_v3"),
    *("text_recognition", "detection", "unet"),
    *("r3d_18", "r2plus1d_18", "x3d_s"),
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = _parse(arguments)
    from examples.quickstart_steps import show
    from tvmconv.core.errors import TvmconvError

    try:
        show(options)
    except TvmconvError as error:
        sys.exit(f"quickstart: {error}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="examples/quickstart.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--network",
        choices=NETWORKS,
        default="resnet50",
        metavar="NAME",
        help=f"one of {', '.join(NETWORKS)}; default: resnet50",
    )
    parser.add_argument("--image", type=int, help="image size; default: the network's own")
    parser.add_argument("--threads", type=int, help="default: all CPUs of this process")
    parser.add_argument(
        "--folder", type=Path, default=Path("quickstart"), help="where the files go"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
