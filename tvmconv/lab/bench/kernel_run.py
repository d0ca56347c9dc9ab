"""One compiled convolution kernel with its arguments, for measurements of single layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from tvmconv.algorithms.operands import output_shape
from tvmconv.core.config import KnobValue
from tvmconv.core.errors import ConfigError
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.arguments import Constants, constant_arguments
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench.integer_case import read_constants
from tvmconv.measuring.operands import arranged, as_result, kernel_facts, typed, unblocked


class KernelRun:
    """A kernel, compiled as it would be in a network, ready to be called.

    ``inputs`` are ``data`` (N, C, H, W), and ``residual`` of the output's shape. ``constants`` are
    ``weight`` (K, C/groups, R, S), and ``bias`` (K,). All are FP32 or of the workload's types. For
    integers, constants are the arrays of
    :func:`~tvmconv.lab.bench.integer_case.write_integer_case`, or the constants themselves. A call
    with ``nchw`` ends with the conversion of the output to NCHW, unless the kernel writes it. If
    the kernel reads channel blocks, it begins with the conversion of the input from NCHW.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Mapping[str, Array],
        constants: Mapping[str, Array] | Constants,
        threads: int,
        nchw: bool = False,
    ) -> None:
        from tvmconv.tvm_api import runtime
        from tvmconv.tvm_runtime.threads import repeated

        self.kernel, self.threads = kernel, threads
        w, lanes = kernel.workload, kernel.machine.channel_block
        self._function = self._compiled()
        data = typed(inputs["data"], w.types.data)
        values = [arranged(data, w, lanes)]
        known = constants if isinstance(constants, Constants) else _constants(w, constants)
        start = perf_counter()
        values += constant_arguments(kernel, known)
        self._pack_seconds = perf_counter() - start
        plain = kernel.expression.plain_output
        if w.has("add"):
            residual = typed(inputs["residual"], w.types.output)
            values.append(residual if plain else as_result(residual, w, lanes))
        shape = w.result_shape if plain else output_shape(w, kernel.machine)
        self._result = runtime.empty(shape, w.types.output)
        tensors = [runtime.tensor(np.ascontiguousarray(v)) for v in values]
        self._arguments = (*tensors, self._result)
        self._run = repeated(threads, self._function, *self._arguments)
        self._before: Callable[[], None] | None = None
        self._after: Callable[[], None] | None = None
        if nchw and not w.is_matrix:
            self._convert(data)

    def _convert(self, data: Array) -> None:
        """Add the conversions of plain input and output."""
        from tvmconv.lab.bench.layout_copies import from_blocks, to_blocks
        from tvmconv.tvm_api import runtime

        w, machine = self.kernel.workload, self.kernel.machine
        if w.data_layout == "NCHWc":
            source = runtime.tensor(np.ascontiguousarray(data))
            self._before = to_blocks(source, self._arguments[0], machine, self.threads)
        if self.kernel.expression.plain_output:
            return
        plain = runtime.empty(w.result_shape, w.types.output)
        self._after = from_blocks(self._result, plain, machine, self.threads)
        self._plain = plain

    def _compiled(self, omit: Collection[str] = ()) -> Callable[..., Any]:
        from tvmconv.machines.record import processor
        from tvmconv.tir.general.partial_kernels import LeaveOutBlocks
        from tvmconv.tir.general.rewrite import transformed
        from tvmconv.tir.pipeline import compile_function

        function = self.kernel.prim_func()
        if omit:
            function = transformed(function, LeaveOutBlocks(omit))
        return compile_function(function, processor(self.kernel.machine))["main"]

    def stages(self) -> dict[str, Callable[[], None]]:
        """The algorithm's stages in order, each with a call that ends after it.

        Stages of fused kernels alternate region by region; such a call leaves out the later stages
        of every region. The last stage's call is the kernel itself.
        """
        from tvmconv.tvm_runtime.threads import repeated

        stages = self.kernel.expression.stages
        if not stages and self._after:
            stages = (("convolution", ()),)
        calls: dict[str, Callable[[], None]] = {}
        for number, (name, _) in enumerate(stages, 1):
            later = [block for _, blocks in stages[number:] for block in blocks]
            function = self._compiled(later) if later else self._function
            one = repeated(self.threads, function, *self._arguments)
            calls[name] = partial(_in_order, self._before, one)
        if self._before:
            calls = {"input layout": self._before, **calls}
        return {**calls, "output layout": self} if self._after else calls

    def facts(self) -> dict[str, Any]:
        """Facts of the kernel as plain data.

        The facts of :func:`~tvmconv.measuring.operands.kernel_facts`, and ``pack_seconds``, the
        time of packing the weights once.
        """
        return {**kernel_facts(self.kernel), "pack_seconds": self._pack_seconds}

    def __call__(self) -> None:
        """Run the kernel once."""
        if self._before:
            self._before()
        self._run()
        if self._after:
            self._after()

    def touch_activations(self) -> None:
        """Bring input, residual and output into the caches, as the previous layer would."""
        data, *_, result = self._arguments
        types = self.kernel.workload.types
        tensors = [(data, types.data), (result, types.output)]
        if self.kernel.workload.has("add"):
            tensors.append((self._arguments[-2], types.output))
        for tensor, dtype in tensors:
            # numpy's DLPack lacks bfloat16, which is copied
            array = tensor.numpy() if dtype == "bfloat16" else np.from_dlpack(tensor)
            array.sum()

    def output(self) -> Array:
        """Result of the last call, (N, K, OH, OW), of the workload's output type."""
        if self._after:
            result: Array = self._plain.numpy()
            return result
        own: Array = self._result.numpy()
        if self.kernel.expression.plain_output:
            return own
        return unblocked(own, self.kernel.workload.out_channels)


def _in_order(*calls: Callable[[], object] | None) -> None:
    for each in calls:
        if each:
            each()


def suited(
    kernel: Kernel, arrays: Mapping[str, Array], knobs: Mapping[str, KnobValue] | None = None
) -> Kernel:
    """The kernel for a case's weights.

    Where kernels depend on the weights it is the choice of a build: the cheapest candidate with the
    given knobs and room for these weights. See also :meth:`~tvmconv.kernels.kernel.Kernel.suited`.
    """
    weight = _constants(kernel.workload, arrays).weight
    name, w, machine = kernel.algorithm, kernel.workload, kernel.machine
    if kernel.expression.excess_held(kernel.config) is None:
        return kernel.suited(weight)
    offers = [
        replace(kernel, config=config.replace(**(knobs or {})))
        for config in registry.offers(name, w, machine)
    ]
    able = [offer for offer in offers if _is_legal(offer) and offer.suited(weight) == offer]
    module = registry.schedule(name, machine)
    if not able or module is None:
        return kernel.suited(weight)
    return min(able, key=lambda offer: module.predicted_cycles(w, machine, offer.config))


def _is_legal(kernel: Kernel) -> bool:
    try:
        registry.check(kernel.algorithm, kernel.workload, kernel.machine, kernel.config)
    except ConfigError:
        return False
    return True


def _constants(workload: Conv2dWorkload, arrays: Mapping[str, Array]) -> Constants:
    if workload.types.is_integer:
        return read_constants(arrays)
    weight = typed(arrays["weight"], workload.types.weight)
    return Constants(weight, arrays["bias"] if workload.has("bias") else None)


def relative_error(actual: Array, exact: Array) -> float:
    """max|actual - exact| / max|exact|."""
    scale = float(np.abs(exact).max()) or 1.0
    return float(np.abs(actual.astype(np.float64) - exact).max()) / scale
