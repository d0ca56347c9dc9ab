"""Layer suites as plain data: one problem string a line, read by benches, tests and the CLI.

The files follow benchdnn's batch files: ``PROBLEM n"NAME"``, or ``n"NAME*COUNT"`` for a shape that
the network holds ``COUNT`` times. ``#`` begins a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tvmconv.core.arguments import nearest
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.errors import WorkloadError
from tvmconv.core.files import read_regular
from tvmconv.core.gemm_workload import PREFIX, GemmWorkload
from tvmconv.core.pool_workload import PREFIXES, PoolWorkload
from tvmconv.core.workload import Conv2dWorkload

MAX_FILE_BYTES = 1 << 26

Batched = TypeVar("Batched", "Layer", "Pooling")

_LINE = re.compile(r'(?P<problem>\S+)(?:\s+n"(?P<name>[^"*]+)(?:\*(?P<count>[1-9]\d*))?")?')


@dataclass(frozen=True)
class Layer:
    """One line of a suite: a workload, its name and how often the network holds it."""

    name: str
    workload: Conv2dWorkload
    count: int = 1


@dataclass(frozen=True)
class Product:
    """One line of a suite of matrix products, which only benches read."""

    name: str
    workload: GemmWorkload
    count: int = 1


@dataclass(frozen=True)
class Pooling:
    """One line of a suite of pooling layers, which only benches read."""

    name: str
    workload: PoolWorkload
    count: int = 1


Problem = Layer | Product | Pooling
_KINDS = {Product: "matrix product", Pooling: "pooling layer"}


def names() -> tuple[str, ...]:
    """The suites that ship with the package."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.txt")))


def with_batch(layer: Batched, batch: int) -> Batched:
    """The layer at another batch size, which its name then contains."""
    w = layer.workload
    workload = replace(w, batch=batch)
    stem = layer.name.removesuffix(f" mb{w.batch}")
    name = str(workload) if layer.name == str(w) else f"{stem} mb{batch}"
    return replace(layer, name=name, workload=workload)


def with_types(layer: Layer, types: DataTypes) -> Layer:
    """The layer with other data types; padding of 8-bit data holds their zero point."""
    w = layer.workload
    if types.is_integer and w.reads_padding:
        types = replace(types, quantisation=replace(types.quantisation, data_zero_point=True))
    workload = replace(w, types=types, epilogue=w.epilogue or (EpilogueOp("bias"),))
    name = str(workload) if layer.name == str(w) else layer.name
    return Layer(name, workload, layer.count)


def parse_layer(line: str) -> Layer:
    """Read the line of a convolution, as :func:`parse_problem` does."""
    return _convolution(parse_problem(line))


def parse_problem(line: str) -> Problem:
    """Read one line; a bare problem string is its own name."""
    match = _LINE.fullmatch(line.strip())
    if not match:
        raise WorkloadError(f'cannot read the layer {line!r}. Expected PROBLEM n"NAME*COUNT".')
    name, problem, count = match["name"], match["problem"], int(match["count"] or 1)
    if problem.startswith(PREFIX):
        product = GemmWorkload.parse(problem)
        return Product(name or str(product), product, count)
    if problem.startswith(tuple(PREFIXES)):
        pooling = PoolWorkload.parse(problem)
        return Pooling(name or str(pooling), pooling, count)
    workload = Conv2dWorkload.parse(problem)
    return Layer(name or str(workload), workload, count)


def _convolution(problem: Problem) -> Layer:
    if isinstance(problem, Layer):
        return problem
    kind = _KINDS[type(problem)]
    raise WorkloadError(
        f"{problem.workload} is a {kind}. Expected a convolution. "
        f"Use 'tvmconv bench run' for a {kind}."
    )


def load(suite: str) -> tuple[Layer, ...]:
    """The convolutions of a suite, as :func:`load_problems` reads it."""
    return tuple(_convolution(problem) for problem in load_problems(suite))


def load_problems(suite: str) -> tuple[Problem, ...]:
    """The layers of a suite that ships with the package, or of a text file in the same form.

    Raises :class:`WorkloadError` if the suite is unknown, or a line of it cannot be read.
    """
    shipped = Path(__file__).parent / f"{suite}.txt"
    path = shipped if suite in names() else Path(suite)
    try:
        lines = read_regular(path, MAX_FILE_BYTES, WorkloadError).decode().splitlines()
    except (OSError, UnicodeDecodeError):
        known = ", ".join(names())
        raise WorkloadError(
            f"unknown suite {suite!r}; {nearest(suite, names())}use one of {known}, or a "
            "text file of problem strings"
        ) from None
    layers: list[Problem] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            layers.append(parse_problem(text))
        except WorkloadError as error:
            raise WorkloadError(f"{path.name} line {number}: {error}") from None
    if not layers:
        raise WorkloadError(f"{path} holds no layer. Expected one problem string a line.")
    return tuple(layers)
