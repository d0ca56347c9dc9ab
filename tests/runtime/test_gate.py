"""Code for a machine whose features the host lacks: built and read, never run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te

import tvmconv
from tests.assembly import assembly
from tests.small_network import small_network
from tvmconv.core.errors import ArtifactError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.lab.bench.check_model import check_layer
from tvmconv.lab.bench.gemm_run import GemmRun
from tvmconv.lab.bench.gemm_run import random_operands as matrices
from tvmconv.lab.bench.kernel_run import KernelRun
from tvmconv.lab.bench.measured_error import measure_errors
from tvmconv.lab.bench.measuring import run_plan
from tvmconv.lab.bench.peak import fma_runner, measure_peak, read_runner
from tvmconv.lab.bench.plan import make_plan
from tvmconv.machines import gate
from tvmconv.machines.features import required_features
from tvmconv.machines.gate import GuardedCode
from tvmconv.machines.x86 import MACHINES
from tvmconv.measuring.operands import random_operands
from tvmconv.measuring.suites import parse_layer
from tvmconv.selection.policy import make_policy
from tvmconv.tuning import auto
from tvmconv.tuning.candidate import compile_kernel
from tvmconv.tuning.measure import Final, LocalMeasurer
from tvmconv.tuning.pool import Pool
from tvmconv.tuning.runner import LocalRunner, make_runner
from tvmconv.tuning.session import check_host
from tvmconv.tuning.settings import Settings

V3, V4 = (MACHINES[name].with_cores(1) for name in ("x86-64-v3", "x86-64-v4"))
WORKLOAD = Conv2dWorkload.parse("ic16ih6oc16kh3ph1")
REFUSED = r"was built for x86-64-v4 .* and needs avx512bw, .*avx512vl, which this CPU"


@pytest.fixture(autouse=True)
def avx2_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that has what AVX2 code needs, and no more."""
    monkeypatch.setattr(gate, "host_features", lambda: frozenset(required_features(V3)))


def kernel() -> Kernel:
    return make_kernel(WORKLOAD, V4, "direct")


def choice() -> tuple[str, Any]:
    return "direct", kernel().config


@cache
def wide_model() -> tvmconv.CompiledModel:
    return tvmconv.build(small_network(), "x86-64-v4", threads=1, log="none")


def interleaved() -> None:
    LocalMeasurer(Pool()).interleaved(WORKLOAD, V4, [choice()], Final(rounds=1, seconds=0.0))


# every way in which the package itself runs what it compiled
RUNS: dict[str, Callable[[], object]] = {
    "function": lambda: compile_kernel(kernel())["main"],
    "model": lambda: wide_model().time(repeat=1),
    "profile": lambda: wide_model().profile(repeat=1),
    "kernel": lambda: KernelRun(kernel(), *random_operands(WORKLOAD), 1),
    "product": lambda: GemmRun(GemmWorkload(8, 8, 8), V4, matrices(GemmWorkload(8, 8, 8)), 1),
    "peak": lambda: measure_peak(V4),
    "multiply-adds": lambda: fma_runner(V4, 1),
    "bandwidth": lambda: read_runner(V4, 1),
    "errors": lambda: measure_errors(small_network(), wide_model()),
    "check-model": lambda: check_layer(parse_layer(str(WORKLOAD)), V4, make_policy(), 1, 0.0),
    "bench": lambda: run_plan(make_plan(layers=[str(WORKLOAD)], target="x86-64-v4")),
    "runner": lambda: make_runner(None, [compile_kernel(kernel())], V4),
    "trials": lambda: list(LocalMeasurer(Pool()).trials(WORKLOAD, V4, [choice()])),
    "interleaved": interleaved,
    "auto": lambda: auto.run(WORKLOAD, V4, choice(), choice(), Settings()),
    "tune": lambda: check_host(V4),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_the_host_cannot_run_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(ArtifactError, match=REFUSED):
        RUNS[name]()


def test_it_is_built_read_and_saved_all_the_same(tmp_path: Path) -> None:
    assert assembly(kernel()).has("%zmm")
    model = wide_model()
    assert "x86-64-v4" in str(model.explain())
    path = model.save(tmp_path / "wide.so")
    with pytest.raises(ArtifactError, match=r"wide\.so was built for x86-64-v4 .* such as x86"):
        tvmconv.load(path)


def test_what_it_can_run_is_not() -> None:
    weight = np.ones((16, 16, 3, 3), np.float32)
    run = KernelRun(
        make_kernel(WORKLOAD, V3, "direct"),
        {"data": np.ones((1, 16, 6, 6), np.float32)},
        {"weight": weight},
        1,
    )
    run()
    assert run.output()[0, 0, 2, 2] == 144


def test_a_device_elsewhere_is_not_asked_by_this_host() -> None:
    remote = {"host": "127.0.0.1", "port": 1, "key": "none", "session_seconds": 1}
    assert not isinstance(make_runner(remote, [compile_kernel(kernel())], V4), LocalRunner)


def test_the_sentence_tells_of_hidden_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "avx512")
    with pytest.raises(ArtifactError, match=r"lacks or TVMCONV_HIDE_FEATURES hides; build it"):
        gate.ensure_machine(V4, "it")


# The guard that tests/conftest.py puts into every session: TVM called directly.


def doubled(target: Any) -> Any:
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i] * 2.0, name="y")
    return tvm.tirx.build(te.create_prim_func([x, y]), target=target)


def relax_module() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((16,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(builder.emit(relax.op.add(x, x)))
        builder.emit_func_output(y)
    return builder.finalize()


def test_a_test_cannot_go_around_it() -> None:
    module = doubled(V4.tvm_target())
    with pytest.raises(ArtifactError, match=r"a module of this test was built for .*x86-64-v4"):
        module["main"]
    executable = relax.build(relax_module(), target=tvm.target.Target(V4.tvm_target()))
    with pytest.raises(ArtifactError, match=r"a module of this test was built for .*x86-64-v4"):
        relax.VirtualMachine(executable, tvm.cpu())


@pytest.mark.parametrize("target", ["llvm", V3.tvm_target()], ids=["baseline", "avx2"])
def test_it_lets_pass_what_the_host_has(target: Any) -> None:
    x, y = tvm.runtime.tensor(np.ones(16, np.float32)), tvm.runtime.empty((16,), "float32")
    doubled(target)["main"](x, y)
    assert (y.numpy() == 2).all()


# Names of TVM's and ours that lead to compiled code, and the only files that may use them.
ENTRANCES = {
    "tirx.build": {"tir/pipeline.py", "machines/probe_kernels.py"},
    "relax.build": {"lab/baselines/own.py"},
    "tvm.build": set(),
    "tvm.compile": set(),
    "FoldConstant": set(),
    "VirtualMachine": {"lab/baselines/own.py"},
    "as_import": {"compile/external.py"},
    # torch's
    "jit": {"lab/baselines/torch_jit.py"},
    "load_module": {"remote.py", "tuning/runner.py", "tuning/gpu_runner.py"},
    # models, which ask the processor themselves
    "in_dll": {"runtime/binding.py"},
    "Runner": set(),
    "Runner.each": {"model.py", "runtime/portable.py"},
    "State": {"runtime/runner.py"},
    "new_state": {"runtime/runner.py", "runtime/timing.py", "lab/baselines/own_gpu.py"},
    # on a device of an RPC tracker
    "time_evaluator": {"remote.py", "tuning/runner.py"},
    "get_function": {"tuning/runner.py"},
    # after a question to the gate
    "tune_tir": {"tuning/auto.py"},
}


def mentioned(tree: ast.AST) -> Iterator[str]:
    """Attributes, alone and after the last part of their owner; called names; texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
            if isinstance(node.value, ast.Name | ast.Attribute):
                yield f"{getattr(node.value, 'attr', getattr(node.value, 'id', ''))}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_package_has_no_other_entrance() -> None:
    """A new way to compiled code asks the gate first; then add it to the table above."""
    package = Path(tvmconv.__file__).parent
    roots = [package, package.parent / "schedules", package.parent / "examples"]
    found: dict[str, set[str]] = {name: set() for name in ENTRANCES}
    for root in roots:
        for path in root.rglob("*.py"):
            for name in mentioned(ast.parse(path.read_text())):
                if name in found:
                    found[name].add(path.relative_to(root).as_posix())
    assert found == ENTRANCES


def test_code_gives_nothing_but_through_the_gate() -> None:
    public = {name for name in dir(GuardedCode(None, V3)) if not name.startswith("_")}
    assert public == {"machine", "inspect_source", "write_object", "export_library", "as_import"}
