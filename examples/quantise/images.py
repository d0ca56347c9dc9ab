"""Calibration images: a user's, or random ones with the spectrum of photographs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.errors import InputError
from tvmconv.core.files import open_regular

Array = npt.NDArray[Any]
Images = npt.NDArray[np.float32]

_MOST_BYTES = 1 << 34


def random_images(shape: tuple[int, ...], count: int, seed: int) -> Images:
    """Images of mean 0 and deviation 1 over each, in which neighbouring pixels are alike.

    Every octave of detail adds noise of the same variance, as in photographs, whose power falls
    with the square of the frequency. White noise would give a network the same averages for every
    image.

    Parameters
    ----------
    shape
        Of one image: channels first, then any number of axes.
    count
        Images.
    seed
        Fixes every value.

    Returns
    -------
    numpy.ndarray
        Shape (count, *shape).
    """
    rng = np.random.default_rng(seed)
    images = np.zeros((count, *shape))
    scale = 1
    while scale == 1 or scale < 2 * max(shape[1:], default=1):
        coarse = [shape[0], *(-(-size // scale) for size in shape[1:])]
        noise = rng.standard_normal((count, *coarse))
        for axis, size in enumerate(shape[1:], start=2):
            noise = np.repeat(noise, scale, axis).take(range(size), axis)
        images += noise
        scale *= 2
    axes = tuple(range(1, images.ndim))
    deviation = images.std(axes, keepdims=True)
    # an "image" of one value has none
    return ((images - images.mean(axes, keepdims=True)) / (deviation + 1e-6)).astype(np.float32)


def read_images(path: Path, shape: tuple[int, ...]) -> Images:
    """Images of a folder of ``.npy`` files, or of one ``.npy`` or ``.npz``.

    Parameters
    ----------
    path
        Each array holds one image or, along a first axis, several.
    shape
        Of one image.

    Returns
    -------
    numpy.ndarray
        Shape (count, *shape), in the order of the files' names.

    Raises
    ------
    InputError
        If there is no image, or a file cannot be read or holds anything else.
    """
    files = sorted(path.glob("*.npy")) if path.is_dir() else [path]
    found = [_as_images(name, array, shape) for file in files for name, array in _arrays(file)]
    if not sum(map(len, found)):
        where = "has no .npy file with an image" if path.is_dir() else "holds no image"
        raise InputError(f"{path} {where}; give images of shape {shape}")
    return np.concatenate(found)


def _arrays(file: Path) -> Iterator[tuple[str, Array]]:
    try:
        with os.fdopen(open_regular(file, _MOST_BYTES, InputError), "rb") as opened:
            loaded = np.load(opened, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                yield str(file), loaded
            else:
                for name in loaded.files:
                    yield f"{file}: {name}", loaded[name]
    # zipfile and zlib have errors of their own for damaged archives
    except InputError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise InputError(f"cannot read {file} as .npy or .npz: {text}") from None


def _as_images(name: str, array: Array, shape: tuple[int, ...]) -> Images:
    if array.shape == shape:
        array = array[None]
    if array.shape[1:] != shape:
        raise InputError(
            f"{name} has shape {array.shape}; the model takes images of shape {shape}, "
            "one to an array or several along a first axis"
        )
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {array.dtype}, not numbers")
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds values that are not finite, which have no scale")
    return array.astype(np.float32)
