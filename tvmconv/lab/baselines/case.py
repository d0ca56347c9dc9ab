"""One measurement: a small graph in files that every adapter can read.

A case is a folder holding ``case.json`` (nodes in ONNX's vocabulary with explicit padding, all
shapes static), ``constants.npz``, ``inputs.npz``, ``reference.npz`` and the ONNX file itself. A
single layer is a graph of one convolution and its epilogue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# a file next to the model of a layer: the same with inputs and outputs in NHWC
CHANNELS_LAST = "channels_last.onnx"
# the variable with the command that emulates this process
EMULATOR = "TVMCONV_EMULATOR"


class Unsupported(Exception):
    """The library, or its adapter, cannot express this case; the message says what."""


@dataclass(frozen=True)
class CaseNode:
    """One operator; ``inputs`` and ``outputs`` name values, ``""`` is an absent input."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]

    def input(self, index: int) -> str:
        """Name of an input, ``""`` where it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    @property
    def output(self) -> str:
        """Name of the first output."""
        return self.outputs[0]


@dataclass(frozen=True)
class Case:
    """A graph with its constants and input values; see the module's docstring."""

    folder: Path
    onnx: Path
    nodes: tuple[CaseNode, ...]
    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, Array]
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    options: Mapping[str, Any]

    def uses(self) -> dict[str, int]:
        """How many nodes and graph outputs read each value."""
        counts: dict[str, int] = {}
        for name in (n for node in self.nodes for n in node.inputs):
            counts[name] = counts.get(name, 0) + 1
        for name in self.outputs:
            counts[name] = counts.get(name, 0) + 1
        return counts

    def single_input(self) -> tuple[str, Array]:
        """The only input; adapters that feed one tensor call this."""
        if len(self.inputs) != 1:
            raise Unsupported(f"{len(self.inputs)} inputs; this adapter feeds one")
        return next(iter(self.inputs.items()))

    def product(self) -> tuple[Array, Array]:
        """Both matrices of a case that is one plain product; adapters of a BLAS call this."""
        if len(self.nodes) != 1 or self.nodes[0].op != "MatMul":
            raise Unsupported("one plain matrix product only")
        a, b = (self.inputs[name] for name in self.nodes[0].inputs)
        return a, b

    def constant(self, name: str) -> Array:
        """The value of a constant."""
        if name not in self.constants:
            raise Unsupported(f"{name!r} must be a constant")
        return self.constants[name]


@dataclass(frozen=True)
class Session:
    """A prepared baseline.

    Parameters
    ----------
    run
        One synchronous call; it is timed.
    outputs
        Output values of the last call by ONNX name, in ONNX layout.
    info
        Its choices, where it reports them (kernel names, layouts).
    operations
        Floating-point operations of one call; None for the case's.
    facts
        Plain data; see :class:`tvmconv.lab.bench.result.Entry`.
    stages
        Names of the stages in order, each with a call that ends after it; the last stage ends with
        ``run``.
    warm
        Brings inputs and outputs into the caches, as the previous layer would leave them.
    sampler
        Times of another clock than this process's, such as a GPU's. It takes ``run`` or a stage, a
        number of samples and the size of the caches to displace before each (0 for warm calls), and
        returns seconds. ``run`` then only enqueues a call, and ``outputs`` waits for it.
    colds
        Whether calls can be timed with data outside the caches.
    callers
        With the option ``streams``: so many calls that may run at the same time, one a thread.
    """

    run: Callable[[], object]
    outputs: Callable[[], dict[str, Array]]
    info: str = ""
    operations: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    stages: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    warm: Callable[[], object] | None = None
    sampler: Callable[[Callable[[], object], int, int], list[float]] | None = None
    colds: bool = True
    callers: Sequence[Callable[[], object]] = ()


class _Inputs(Mapping[str, Array]):
    """Input values of a case, each made on first use: large batches have gigabytes."""

    def __init__(self, path: Path, shapes: Mapping[str, tuple[int, ...]], repeated: bool) -> None:
        self._path, self._shapes, self._repeated = path, shapes, repeated
        self._made: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._made:
            if name not in self._shapes:
                raise KeyError(name)
            with np.load(self._path) as file:
                value = file[name]
            self._made[name] = np.resize(value, self._shapes[name]) if self._repeated else value
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def read_case(folder: Path, options: Mapping[str, Any]) -> Case:
    """Open a case folder; values are read from disk when an adapter asks for them."""
    data = json.loads((folder / "case.json").read_text())
    shapes = {name: tuple(shape) for name, shape in data["shapes"].items()}
    given = {name: shapes[name] for name in data["inputs"]}
    inputs = _Inputs(folder / "inputs.npz", given, bool(data.get("repeated")))
    return Case(
        folder=folder,
        onnx=Path(data["onnx"]),
        nodes=tuple(
            CaseNode(n["name"], n["op"], tuple(n["inputs"]), tuple(n["outputs"]), n["attrs"])
            for n in data["nodes"]
        ),
        shapes=shapes,
        constants=np.load(folder / "constants.npz"),
        inputs=inputs,
        outputs=tuple(data["outputs"]),
        options=options,
    )


# suffix of an output's name: the places of the values that the reference has
PLACES = ".places"


def read_reference(folder: Path) -> dict[str, Array]:
    """The expected outputs, or values of them with their places under :data:`PLACES`."""
    with np.load(folder / "reference.npz") as file:
        return {name: file[name] for name in file.files}


def relative_error(actual: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """Largest ``max|actual - expected| / max|expected|`` of the outputs; inf for a wrong shape."""
    worst = 0.0
    for name, want in expected.items():
        if name.endswith(PLACES):
            continue
        have, places = actual.get(name), expected.get(name + PLACES)
        if have is not None and places is not None:
            if places.max() >= have.size or not np.isfinite(have).all():
                return float("inf")
            have = have.reshape(-1)[places]
        if have is None or have.size != want.size:
            return float("inf")
        difference = have.reshape(want.shape).astype("float64") - want
        scale = float(np.abs(want).max()) or 1.0
        error = float(np.abs(difference).max()) / scale
        worst = max(worst, error if np.isfinite(error) else float("inf"))
    return worst


def differing(actual: Mapping[str, Array], expected: Mapping[str, Array]) -> float | None:
    """Share of the values of integer outputs that differ; None where no output has integers."""
    integers = [name for name, want in expected.items() if want.dtype.kind in "iu"]
    if not integers or any(name not in actual for name in integers):
        return None
    unequal = sum(
        int(np.count_nonzero(actual[name].reshape(expected[name].shape) != expected[name]))
        for name in integers
    )
    return unequal / max(1, sum(expected[name].size for name in integers))
