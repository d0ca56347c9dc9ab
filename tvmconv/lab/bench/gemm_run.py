"""One compiled matrix product with its arguments, and the case that peers get for it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.config import Config
from tvmconv.core.datatypes import FLOAT32, refusal
from tvmconv.core.errors import InputError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.costs.cpu.gemm import transfer_ratio
from tvmconv.kernels.gemm import make_gemm
from tvmconv.lab.bench.case_files import SEED, CaseInfo, write_case
from tvmconv.machines.record import Machine

Array = npt.NDArray[Any]


class GemmRun:
    """A product, compiled and ready to be called.

    Parameters
    ----------
    workload
        What to compute.
    machine
        The processor.
    inputs
        ``a`` (m, k), ``b`` (k, n), and ``c`` (m, n) where the workload has a beta; float32.
    threads
        Threads of a call.
    config
        Knobs; the schedule's default if None.
    prepacked
        B is packed here, outside of the calls.
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

        self.kernel = make_gemm(workload, machine, config, prepacked=prepacked)
        self.threads = threads
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
        self._result = runtime.empty((workload.m, workload.n), "float32")
        self._arguments = (*(runtime.tensor(value) for value in values), self._result)

    def __call__(self) -> None:
        """Run the product once."""
        from tvmconv.tvm_runtime.threads import call

        call(self.threads, self._function, *self._arguments)

    def _multiplies(self) -> int:
        w, config = self.kernel.workload, self.kernel.config
        extents = ((w.m, "mr"), (w.n, "nr"), (w.k, "kc"))
        return prod(-(-extent // config.int(name)) * config.int(name) for extent, name in extents)

    def facts(self) -> dict[str, Any]:
        """As :meth:`tvmconv.lab.bench.kernel_run.KernelRun.facts`, B in the place of weights.

        ``operations_per_value`` is what the source's equation 4.3 gives for the chosen blocks.
        """
        return dict(self._facts)

    def output(self) -> Array:
        """Result of the last call, (m, n), float32."""
        result: Array = self._result.numpy()
        return result


def random_operands(workload: GemmWorkload, seed: int = SEED) -> dict[str, Array]:
    """Normally distributed ``a``, ``b`` and, where beta is not 0, ``c``."""
    w, generator = workload, np.random.default_rng(seed)
    shapes = {"a": (w.m, w.k), "b": (w.k, w.n), **({"c": (w.m, w.n)} if w.beta else {})}
    return {name: generator.standard_normal(s, dtype=np.float32) for name, s in shapes.items()}


def exact(workload: GemmWorkload, inputs: Mapping[str, Array]) -> Array:
    """The product in float64, (m, n)."""
    result: Array = np.matmul(inputs["a"].astype(np.float64), inputs["b"].astype(np.float64))
    result *= workload.alpha
    if workload.beta:
        result += workload.beta * inputs["c"]
    return result


def write_gemm_case(
    folder: Path, workload: GemmWorkload, name: str = "", count: int = 1
) -> CaseInfo:
    """A folder for one product: both operands are inputs, so that every peer packs in its call."""
    import onnx

    w, helper = workload, onnx.helper
    if reason := refusal(w.types, (FLOAT32,)):
        raise InputError(f"bench cannot measure {w}: {reason}; leave its types out")
    inputs = random_operands(w)
    plain = w.alpha == 1 and not w.beta
    op, attrs = ("MatMul", {}) if plain else ("Gemm", {"alpha": w.alpha, "beta": w.beta})
    shapes = {name: list(value.shape) for name, value in inputs.items()} | {"product": [w.m, w.n]}
    values = {
        key: helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, shape)
        for key, shape in shapes.items()
    }
    node = helper.make_node(op, list(inputs), ["product"], "product", **attrs)
    graph = helper.make_graph(
        [node], "product", [values[key] for key in inputs], [values["product"]]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "model.onnx"
    onnx.save(model, path)
    described = {
        "name": "product",
        "op": op,
        "inputs": list(inputs),
        "outputs": ["product"],
        "attrs": attrs,
    }
    write_case(folder, path, [described], shapes, {}, inputs, ["product"])
    # rounded to float32, a hundredth of the errors of float32 sums, to halve what peers read
    np.savez(folder / "reference.npz", product=exact(w, inputs).astype(np.float32))
    return CaseInfo(name or str(w), "product", str(w), w.flops, count)
