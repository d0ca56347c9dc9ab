"""8-bit layers of any kind by any kernel: the integers of a 64-bit reference, bit for bit.

An attempt builds one kernel and runs it with :data:`SETS` sets of data, weights and numbers.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from tests.fuzz.runner import Note, Wrong
from tests.kernels import integer_arguments
from tests.layout import unblock
from tests.random_layers import random_integer_layer
from tvmconv.algorithms.integer.packed_pixels import orders_packed
from tvmconv.algorithms.winograd.integers import check_sums, largest_sums
from tvmconv.algorithms.winograd.tiles import tiling
from tvmconv.core.errors import ConfigError, WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.arguments import Constants, exceeds_rounding, in_integers
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.gate import lacks
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring.integers import (
    IntegerOperands,
    exact_output,
    exactly_added,
    random_integers,
)
from tvmconv.tir.pipeline import compile_function

SETS = 40
# a reference in numpy takes milliseconds
_MULTIPLY_ADDS = 500_000
# vectors of 256 and 512 bits, each without and with VNNI
_TARGETS = (
    "x86-64-v3",
    "x86-64-v4",
    "llvm -mcpu=icelake-server",
    "llvm -mcpu=alderlake",
    "native",
)
_ALGORITHMS = (
    *("direct", "direct", "direct_bytes", "direct_first"),
    *("depthwise", "im2col", "winograd", "winograd"),
)
_SUM = 2**31 - 1


@dataclass(frozen=True)
class Case:
    """One kernel, and what decides its sets of operands."""

    kernel: Kernel
    seed: int


class Integers:
    """Kernels with random knobs, and operands up to the ends of their types."""

    batch = 200

    def __init__(self) -> None:
        os.environ["TVMCONV_TUNING_LOGS"] = "none"
        machines = [resolve_machine(target, 1) for target in _TARGETS]
        self.machines = [machine for machine in machines if not lacks(machine)]
        has_tiles = any(machine.tiles for machine in self.machines)
        self.algorithms = (*_ALGORITHMS, *(("direct_tiles",) * 2 if has_tiles else ()))

    def make(self, generator: random.Random) -> Case:
        # most layers are for direct alone
        name = generator.choice(self.algorithms)
        # few random layers are pixelwise
        packed = name == "direct_bytes" and generator.random() < 0.4
        while True:
            layout = "NCHW" if name == "direct_first" else "NCHWc"
            workload = random_integer_layer(generator, _MULTIPLY_ADDS, layout)
            machine = generator.choice(self.machines).with_cores(generator.choice((1, 1, 3)))
            if registry.algorithm(name).unsupported(workload, machine) is not None:
                continue
            if packed and not (orders := orders_packed(workload)):
                continue
            config = generator.choice(registry.offers(name, workload, machine))
            if packed:
                config = config.replace(packed=generator.randint(1, orders), oh=1)
            values = registry.knob_values(name, workload, machine)
            for _ in range(10):
                drawn = generator.sample(sorted(values), min(len(values), generator.randrange(4)))
                knobs = {knob: generator.choice(values[knob]) for knob in drawn if values[knob]}
                try:
                    kernel = make_kernel(workload, machine, name, config.replace(**knobs))
                except ConfigError:
                    continue
                return Case(kernel, generator.randrange(2**32))

    def files(self, case: Case) -> dict[str, bytes]:
        kernel = case.kernel
        text = f"{kernel.machine.mcpu} {kernel.machine.cores} {kernel.algorithm} "
        return {"layer.txt": f"{text}{kernel.workload} {kernel.config}\n".encode()}

    def judge(self, case: Case, note: Note) -> bool:
        kernel, w = case.kernel, case.kernel.workload
        sets = [_operands(kernel, case.seed + number) for number in range(SETS)]
        for operands in sets:
            # with as much room for excess as any of them needs
            kernel = kernel.suited(operands.constants.weight)
        run = compile_function(kernel.prim_func(), kernel.machine)["main"]
        for number, operands in enumerate(sets):
            tensors = [tvm.runtime.tensor(a) for a in integer_arguments(kernel, operands)]
            run(*tensors)
            actual = unblock(tensors[-1].numpy(), w.out_channels)
            expected = exact_output(w, operands, "int64")
            if actual.dtype != expected.dtype or not np.array_equal(actual, expected):
                where = self.files(case)["layer.txt"].decode().strip()
                wrong = int((actual != expected).sum())
                at = tuple(int(i) for i in np.argwhere(actual != expected)[0])
                raise Wrong(
                    f"{where}, set {number}: {wrong} of {actual.size} differ, the first at {at}: "
                    f"{actual[at]}, not {expected[at]}"
                )
        return True


def _operands(kernel: Kernel, seed: int) -> IntegerOperands:
    """Operands of one set: spread over their range, or at its ends."""
    w, pick = kernel.workload, np.random.default_rng(seed)
    operands = random_integers(w, seed)
    constants = operands.constants
    weight = _pushed(constants.weight, _weight_range(w), pick)
    if kernel.algorithm == "winograd":
        weight = _allowed(weight, kernel)
    data = _pushed(operands.data, (0, 255), pick)
    # without a bias, or where padding is 0, it stays as it is
    zero = constants.zero_point
    zero = int(pick.choice([0, 255, zero])) if zero else 0
    bias, scale = _bias(constants, weight, pick), _scale(constants, pick)
    # models with larger scales round after a kernel that writes FP32
    while w.types.is_requantised and exceeds_rounding(
        weight, bias, scale, w.epilogue, constants.numbers
    ):
        scale = scale * np.float32(0.5)
    changed = Constants(weight, bias, zero, scale, constants.numbers)
    in_fixed_point = w.types.quantisation.requantise == "fixed"
    if in_fixed_point:
        changed = _in_fixed_point(w, changed)
    residual = operands.residual
    if residual is not None and residual.dtype == np.uint8:
        residual = _pushed(residual, (0, 255), pick)
    changed_operands = IntegerOperands(data, changed, residual)
    return changed_operands if in_fixed_point else exactly_added(w, changed_operands)


def _in_fixed_point(w: Conv2dWorkload, constants: Constants) -> Constants:
    """With scales that have multipliers: halved until they have."""
    while True:
        try:
            in_integers(w, constants)
        except WorkloadError:
            assert constants.scale is not None
            constants = replace(constants, scale=constants.scale * np.float32(0.5))
            continue
        return constants


def _weight_range(w: Conv2dWorkload) -> tuple[int, int]:
    return (-128, 127) if w.types.weight == "int8" else (-255, 255)


def _pushed(values: Any, ends: tuple[int, int], pick: np.random.Generator) -> Any:
    """As they are, at their range's ends, mostly zero, all one value of both, or most near zero."""
    match pick.integers(12):
        case 0:
            return pick.choice(np.array(ends, values.dtype), values.shape)
        case 1:
            return np.full_like(values, pick.choice(ends))
        case 2:
            return np.where(pick.random(values.shape) < 0.9, values.dtype.type(0), values)
        case 3 | 4:
            # pairs of which few may saturate
            middle, deviation = (ends[0] + ends[1] + 1) // 2, (ends[1] - ends[0]) / 6
            drawn = np.rint(pick.normal(middle, deviation, values.shape))
            return drawn.clip(*ends).astype(values.dtype)
    return values


def _allowed(weight: Any, kernel: Kernel) -> Any:
    """Weights with which the tile is exact: halved until they are."""
    tiles = tiling(kernel.workload, kernel.config).integer
    while True:
        try:
            check_sums(weight, kernel.workload, *tiles)
        except WorkloadError:
            weight = (weight // 2).astype(weight.dtype)
            continue
        return weight


def _bias(constants: Constants, weight: Any, pick: np.random.Generator) -> Any:
    """Random, none, or such that sums come near to the ends of 32 bits."""
    bias = constants.bias
    if bias is None:
        return None
    reach = largest_sums(weight, "uint8") * 2
    room = np.maximum(_SUM - reach, 0)
    match pick.integers(8):
        case 0:
            bias = pick.choice([-1, 1], bias.shape) * room
        case 1:
            bias = np.zeros_like(bias)
    return np.clip(bias, -room, room).astype(np.int32)


def _scale(constants: Constants, pick: np.random.Generator) -> Any:
    """With which outputs spread over 8 bits, or small and large ones."""
    if constants.scale is None:
        return None
    factor = pick.choice([*[1] * 7, 2.0**-12, 2.0**8, 2.0**-30])
    return (constants.scale * factor).astype(np.float32)
