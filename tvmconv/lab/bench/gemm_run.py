"""One compiled matrix product with its arguments, and its case for baselines."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tvmconv.algorithms.gemm.gemm import TYPES
from tvmconv.core.config import Config
from tvmconv.core.datatypes import refusal
from tvmconv.core.errors import InputError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.tensor import Array
from tvmconv.costs.cpu.gemm import transfer_ratio
from tvmconv.kernels.gemm import make_gemm
from tvmconv.lab.bench.case_files import SEED, CaseInfo, write_case
from tvmconv.machines.multiply import multiply_of_product
from tvmconv.machines.record import Machine
from tvmconv.measuring.layer_model import model_of, node


class GemmRun:
    """A product, compiled and ready to be called.

    ``inputs`` are ``a`` (m, k), ``b`` (k, n), and ``c`` (m, n) where the workload has a beta, all
    of the workload's types. Without a ``config`` it has the schedule's default. If ``prepacked``, B
    is packed here, outside of the calls.
    """

    def __init__(
        self,
        workload: GemmWorkload,
        machine: Machine,
        inputs: Mapping[str, Array],
        threads: int,
        config: Config | None = None,
        prepacked: bool = False,
    ) -> None:
        from tvmconv.tir.general.record_workspace import recorded
        from tvmconv.tir.pipeline import compile_function
        from tvmconv.tvm_api import runtime
        from tvmconv.tvm_runtime.threads import repeated

        self.kernel = make_gemm(workload, machine, config, prepacked=prepacked)
        with recorded() as sizes:
            self._function = compile_function(self.kernel.prim_func(), machine)["main"]
        start = perf_counter()
        b = self.kernel.pack_b(inputs["b"]) if prepacked else inputs["b"]
        self._facts = {
            "multiplies": self._multiplies(),
            "workspace_bytes": sum(sizes.values()),
            "packed_weight_bytes": b.nbytes if prepacked else 0,
            "pack_seconds": perf_counter() - start if prepacked else 0.0,
            "knobs": self.kernel.config.to_json(),
            "operations_per_value": transfer_ratio(workload, self.kernel.config),
        }
        values = [inputs["a"], b, *([inputs["c"]] if workload.beta else [])]
        self._result = runtime.empty((workload.m, workload.n), workload.types.output)
        arguments = (*(runtime.tensor(value) for value in values), self._result)
        self._run = repeated(threads, self._function, *arguments)

    def __call__(self) -> None:
        """Run the product once."""
        self._run()

    def _multiplies(self) -> int:
        w, config = self.kernel.workload, self.kernel.config
        width = multiply_of_product(w.types, self.kernel.machine).width
        sizes = (config.int("mr"), config.int("nr"), width * config.int("kc"))
        extents = zip((w.m, w.n, w.k), sizes, strict=True)
        return prod(-(-extent // size) * size for extent, size in extents)

    def facts(self) -> dict[str, Any]:
        """As :meth:`tvmconv.lab.bench.kernel_run.KernelRun.facts`, with B as the weights.

        ``operations_per_value`` is the result of the paper's equation 4.3 for the chosen blocks.
        """
        return dict(self._facts)

    def output(self) -> Array:
        """Result of the last call, (m, n)."""
        result: Array = self._result.numpy()
        return result


def random_operands(workload: GemmWorkload, seed: int = SEED) -> dict[str, Array]:
    """``a``, ``b`` and, where beta is not 0, ``c``: normal values, or integers of all sizes."""
    w, generator = workload, np.random.default_rng(seed)

    def drawn(shape: tuple[int, int], dtype: str) -> Array:
        if not w.types.is_integer:
            return generator.standard_normal(shape, dtype=np.float32)
        bounds = np.iinfo(dtype)
        return generator.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)

    found = {"a": drawn((w.m, w.k), w.types.data), "b": drawn((w.k, w.n), w.types.weight)}
    return found | ({"c": drawn((w.m, w.n), w.types.output)} if w.beta else {})


def exact(workload: GemmWorkload, inputs: Mapping[str, Array]) -> Array:
    """The product, (m, n): in float64, or as integers modulo 2**32."""
    if workload.types.is_integer:
        a, b = (inputs[name].astype(np.int64) for name in ("a", "b"))
        sums: Array = np.matmul(a, b).astype(np.int32)
        return sums
    result: Array = np.matmul(inputs["a"].astype(np.float64), inputs["b"].astype(np.float64))
    result *= workload.alpha
    if workload.beta:
        result += workload.beta * inputs["c"]
    return result


def write_gemm_case(
    folder: Path, workload: GemmWorkload, name: str = "", count: int = 1
) -> CaseInfo:
    """A folder for one product of two inputs, so that every baseline packs in its call.

    ONNX has no 16-bit products. Their file is not a valid model, and baselines refuse the case.
    """
    import onnx

    w = workload
    if reason := refusal(w.types, TYPES):
        raise InputError(f"bench cannot measure {w}: {reason}. Change its types.")
    inputs = random_operands(w)
    plain, attrs = w.alpha == 1 and not w.beta, {"alpha": w.alpha, "beta": w.beta}
    op = "MatMulInteger" if w.types.is_integer else "MatMul" if plain else "Gemm"
    shapes = {name: list(value.shape) for name, value in inputs.items()} | {"product": [w.m, w.n]}
    nodes = [node(op, list(inputs), "product", **(attrs if op == "Gemm" else {}))]
    given = {key: (str(value.dtype), value.shape) for key, value in inputs.items()}
    path, output = folder / "model.onnx", w.types.output
    onnx.save(model_of(nodes, {}, given, {"product": (output, (w.m, w.n))}), path)
    write_case(folder, path, nodes, shapes, {}, inputs, ["product"])
    # FP32, to read half as much
    np.savez(folder / "reference.npz", product=exact(w, inputs).astype(output))
    return CaseInfo(name or str(w), "product", str(w), w.flops, count)
