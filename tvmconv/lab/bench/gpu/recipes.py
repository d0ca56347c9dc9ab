"""Constants of a built model from the weights of its ONNX model, without TVM.

A built model can travel without its weights: another machine with the ONNX model, or with its seed,
follows the recipe.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmconv.core.config import Config
from tvmconv.core.decision import Decision
from tvmconv.core.errors import ArtifactError, TvmconvError
from tvmconv.core.files import read_regular
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.device import Device
from tvmconv.runtime.weights import Bytes, pack_header

if TYPE_CHECKING:
    from tvmconv.program.program import Program


_MOST_BYTES = 1 << 30
# forms in which a weight becomes a constant
_PLAIN, _TRANSPOSED, _PACKED, _KEPT = "plain", "transposed", "packed", "kept"


@dataclass(frozen=True)
class Piece:
    """How one constant, ``size`` bytes at an ``offset``, is made.

    ``form`` is ``plain``: the weight as it is; ``transposed``; ``packed`` by the kernel of
    ``workload``, ``algorithm`` and ``config``; or ``kept``: the recipe has its bytes. ``weight``
    names the ONNX model's initializer; empty for ``kept``.
    """

    offset: int
    size: int
    form: str
    weight: str = ""
    workload: str = ""
    algorithm: str = ""
    config: Mapping[str, Any] | None = None

    def made(self, weight: Array, machine: Device) -> Bytes:
        """The constant's bytes."""
        if self.form == _PACKED:
            workload = Conv2dWorkload.parse(self.workload)
            config = Config.from_json(self.config or {})
            kernel = Kernel(workload, machine, self.algorithm, config)
            weight = kernel.pack_weight(weight.reshape(workload.weight_shape))
        elif self.form == _TRANSPOSED:
            weight = weight.T
        return np.ascontiguousarray(weight).reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class Recipe:
    """All constants of a model, made by ``pieces``.

    ``sha256`` is their hash in the build, which the code and the file of weights contain. ``size``
    are their bytes, with the zeros between them. ``kept`` are the bytes of the pieces of that form.
    """

    sha256: str
    size: int
    pieces: tuple[Piece, ...]
    kept: bytes = b""

    def write(self, path: Path) -> None:
        """Into a file."""
        head = {**asdict(self), "kept": len(self.kept)}
        path.write_bytes(json.dumps(head).encode() + b"\n" + self.kept)

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """Inverse of :meth:`write`; raises :class:`ArtifactError` if the file is damaged."""
        try:
            line, _, kept = read_regular(path, _MOST_BYTES, ArtifactError).partition(b"\n")
            head = json.loads(line)
            if len(kept) != head["kept"]:
                raise ValueError(f"{len(kept)} bytes of {head['kept']}")
            pieces = tuple(Piece(**piece) for piece in head["pieces"])
            return cls(head["sha256"], int(head["size"]), pieces, kept)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path} holds no recipe of weights ({error})") from None

    def file(self, weights: Mapping[str, Array], machine: Device) -> Bytes:
        """The content of a file of weights: its header, then the constants.

        ``weights`` are the ONNX model's initializers. Raises :class:`ArtifactError` if a weight is
        missing, or of another size.
        """
        header = np.frombuffer(pack_header(self.size, bytes.fromhex(self.sha256)), np.uint8)
        content = np.zeros(header.size + self.size, np.uint8)
        content[: header.size] = header
        kept = 0
        for piece in self.pieces:
            if piece.form == _KEPT:
                made = np.frombuffer(self.kept, np.uint8)[kept : kept + piece.size]
                kept += piece.size
            else:
                try:
                    made = piece.made(weights[piece.weight], machine)
                except (KeyError, ValueError, TvmconvError) as error:
                    raise ArtifactError(
                        f"the ONNX model has another {piece.weight} than the built one: {error}"
                    ) from None
            if made.size != piece.size:
                raise ArtifactError(
                    f"{piece.weight} makes {made.size} bytes of constants, not {piece.size}"
                )
            start = header.size + piece.offset
            content[start : start + piece.size] = made
        return content


def recipe_of(
    program: Program,
    decisions: Iterable[Decision],
    machine: Device,
    weights: Mapping[str, Array],
    sha256: str,
) -> Recipe:
    """How the constants of a program are made from the weights of its ONNX model.

    Each constant is compared with all forms of the weights; bytes of other constants are kept.
    ``sha256`` is the hash of the constants.
    """
    forms = _forms(weights, decisions)
    found = {_key(piece.made(weights[piece.weight], machine)): piece for piece in forms}
    pieces, kept = [], bytearray()
    for constant in program.constants:
        data = np.ascontiguousarray(constant.data).reshape(-1).view(np.uint8)
        piece = found.get(_key(data), Piece(0, 0, _KEPT))
        if piece.form == _KEPT:
            kept += data.tobytes()
        pieces.append(replace(piece, offset=constant.offset, size=data.size))
    return Recipe(sha256, program.constant_bytes, tuple(pieces), bytes(kept))


def _forms(weights: Mapping[str, Array], decisions: Iterable[Decision]) -> Iterator[Piece]:
    """All forms that weights may have among the constants."""
    kernels = dict.fromkeys(
        (each.workload, each.chosen.algorithm, each.chosen.config) for each in decisions
    )
    for name, array in weights.items():
        if array.dtype == np.float32:
            for workload, algorithm, config in kernels:
                if array.size == prod(workload.weight_shape):
                    knobs = config.to_json()
                    yield Piece(0, 0, _PACKED, name, str(workload), algorithm, knobs)
        if array.ndim == 2:
            yield Piece(0, 0, _TRANSPOSED, name)
        yield Piece(0, 0, _PLAIN, name)


def _key(data: Bytes) -> tuple[int, bytes]:
    return data.size, hashlib.blake2b(data.data, digest_size=16).digest()
