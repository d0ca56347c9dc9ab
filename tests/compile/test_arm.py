"""Models for 64-bit Arm: linked here, called under qemu, right or refused in a sentence."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tvmconv
from tests.cli.verbs import data_of, invoke
from tests.emulating import check_kernels, needs_arm, run_model
from tests.small_network import mixed_network, small_network
from tvmconv.compile import emulation
from tvmconv.compile.emulation import run_emulated
from tvmconv.compile.toolchain import usual_driver
from tvmconv.core.errors import ArtifactError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine

NEON = MACHINES["aarch64"].with_cores(2)
# tails of blocks, rows and tiles; strides, groups, dilation, residual and plain input
PROBLEMS = (
    "mb1ic9ih11iw10oc13kh3ph1+bias+add+relu",
    "mb1ic8ih9iw12oc12kh3sh2ph2+bias",
    "mb1g2ic12ih8iw9oc24kh3ph1+clip(0,6)",
    "mb2ic16ih7iw7oc10kh1+bias+add",
    "mb1ic6ih11iw12oc7kh3dh1ph1+add+sigmoid",
    "mb1ic3ih13iw12oc10kh3sh2ph1:nchw+bias+relu",
    "mb1g10ic10ih9iw11oc10kh3ph1+bias+add+relu",
    "mb1g6ic6ih9iw8oc6kh5sh2ph2+bias",
    "mb2ic24ih7iw5oc22kh1+bias+add",
    "mb1ic16ih9iw8oc8kh3sh2ph1+bias+relu",
)


def taken(name: str, machine: Machine) -> list[Conv2dWorkload]:
    """The problems that an algorithm takes."""
    problems = map(Conv2dWorkload.parse, PROBLEMS)
    return [w for w in problems if registry.algorithm(name).unsupported(w, machine) is None]


def expected(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@needs_arm
def test_every_algorithm(tmp_path: Path) -> None:
    # two are of x86
    names = [name for name in registry.names() if name not in ("direct_bytes", "direct_tiles")]
    kernels = [make_kernel(w, NEON, name) for name in names for w in taken(name, NEON)[:2]]
    assert {kernel.algorithm for kernel in kernels} == set(names)
    for problem in ("mb2ic16ih7iw7oc32kh1+bias+add", "ic32ih9iw8oc16kh3sh2ph1+bias+relu"):
        workload = Conv2dWorkload.parse(problem)
        *_, two_levels = registry.offers("strassen", workload, NEON)
        assert two_levels["levels"] == 2
        kernels.append(make_kernel(workload, NEON, "strassen", two_levels))
    check_kernels(kernels, NEON, tmp_path)


@needs_arm
@pytest.mark.parametrize("core", ["cortex-a53", pytest.param("cortex-a55", marks=pytest.mark.slow)])
def test_vectors_loaded_half_by_half(core: str, tmp_path: Path) -> None:
    machine = MACHINES[core].with_cores(2)
    names = ("direct", "im2col", "winograd", "strassen")
    kernels = [make_kernel(w, machine, name) for name in names for w in taken(name, machine)[:2]]
    # a step at a time, and several
    long = Conv2dWorkload.parse("ic136ih5oc12kh1+bias")
    kernels += [make_kernel(long, machine, name) for name in ("direct", "im2col")]
    check_kernels(kernels, machine, tmp_path)


@needs_arm
def test_sums_read_a_panel_that_was_just_packed(tmp_path: Path) -> None:
    """Copy and sums without a loop between them; LLVM kept some stores for later."""
    machine = MACHINES["cortex-a53"].with_cores(2)
    problems = (
        "ic24ih13iw1oc2kh1sh2+bias",
        "ic24ih13iw3oc1kh1sh2sw3+bias",
        "ic4ih9iw10oc9kh1kw3ph0pw1+add+hardswish",
    )
    kernels = [make_kernel(Conv2dWorkload.parse(p), machine, "im2col") for p in problems]
    check_kernels(kernels, machine, tmp_path)


@needs_arm
def test_tiles_of_neoverse_cores(tmp_path: Path) -> None:
    """The defaults for large layers, on small layers with tails."""
    machine, same = MACHINES["neoverse-v1"], Conv2dWorkload.parse(PROBLEMS[0])
    offers = registry.offers("winograd", same, machine)
    sizes = {(4, 4), (6, 4), (5, 4), (4, 5), (4, 6), (5, 5)}
    tiles = [c for c in offers if (c.int("mh"), c.int("mw")) in sizes]
    assert len(tiles) >= 2
    # the fourth block by itself, in regions and stage by stage
    tiles += [tiles[0].replace(kr=3, rt=1, fused=fused, rh=1) for fused in (0, 1)]
    kernels = [make_kernel(same, machine, "winograd", config) for config in tiles]
    three = {"oc": 3, "mr": 7, "mc": 0}
    for problem in ("mb2ic16ih7iw7oc22kh1+bias+add", PROBLEMS[1]):
        workload = Conv2dWorkload.parse(problem)
        config = registry.offers("im2col", workload, machine)[0].replace(**three)
        kernels.append(make_kernel(workload, machine, "im2col", config))
    check_kernels(kernels, machine, tmp_path)


@needs_arm
@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda m: m.name)
def test_every_offer(machine: Machine, tmp_path: Path) -> None:
    two = machine.with_cores(2)
    kernels = [
        make_kernel(w, two, name, config)
        for name in registry.names()
        for w in taken(name, two)
        for config in registry.offers(name, w, two)
    ]
    check_kernels(kernels, two, tmp_path)


@needs_arm
@pytest.mark.parametrize("network", [small_network, mixed_network])
def test_networks(network, tmp_path: Path) -> None:
    onnx_model = network()
    shape = [d.dim_value for d in onnx_model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    model = tvmconv.build(onnx_model, "aarch64", threads=2, log="none")
    (actual,) = run_model(model, tmp_path, x)
    np.testing.assert_allclose(actual, expected(onnx_model, x), atol=1e-6)


@needs_arm
def test_from_onnx_to_outputs_by_commands(tmp_path: Path) -> None:
    source, library = tmp_path / "small.onnx", tmp_path / "small.so"
    onnx.save(small_network(), source)
    invoke("compile", source, "--target", "neoverse-n1", "-o", library)
    assert struct.unpack_from("<H", library.read_bytes(), 18) == (183,)  # EM_AARCH64
    compare = ("--compare-onnxruntime", "--onnx", source)
    report = data_of("run", library, "--emulate", "-o", tmp_path / "y.npz", *compare)
    assert report["emulated"]
    assert report["worst_relative_error"] < 1e-6
    assert np.load(tmp_path / "y.npz")["output"].sum() == pytest.approx(1, abs=1e-5)
    # nothing of it is called here
    with pytest.raises(ArtifactError, match="needs a 64-bit Arm CPU"):
        tvmconv.load(library)
    # a model asks the processor that it meets: Cortex-A53 has no dot products
    machine = resolve_machine("neoverse-n1")
    with pytest.raises(ArtifactError, match=r"lacks .*asimddp.* built for neoverse-n1"):
        run_emulated(library, machine.triple, (), (), {}, ("-cpu", "cortex-a53"))


@needs_arm
@pytest.mark.parametrize("weights", ["embedded", "external"])
def test_a_bundle_is_copied_compiled_and_run(weights: str, tmp_path: Path) -> None:
    source, made, device = (tmp_path / name for name in ("small.onnx", "made", "device"))
    onnx.save(small_network(), source)
    invoke("bundle", source, "--target", "aarch64", "--weights", weights, "-o", made)
    shutil.move(made, device)
    x = np.random.default_rng(1).standard_normal((1, 3, 21, 20)).astype("float32")
    x.tofile(tmp_path / "x")
    qemu = next(filter(shutil.which, ("qemu-aarch64", "qemu-aarch64-static")))
    done = subprocess.run(
        ["sh", device / "run.sh", "-r", "1", "-o", tmp_path, tmp_path / "x"],
        cwd="/",
        env={
            "PATH": os.environ["PATH"],
            "CC": usual_driver(NEON.triple),
            "EMULATOR": f"{qemu} -L /usr/{NEON.triple}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    actual = np.fromfile(tmp_path / "0.out", np.float32)
    np.testing.assert_allclose(actual, expected(small_network(), x)[0], atol=1e-6)


def test_emulation_needs_qemu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(emulation.shutil, "which", lambda _: None)
    with pytest.raises(ArtifactError, match=r"requires qemu-aarch64, .* apt install qemu-user"):
        run_emulated(tmp_path / "model.so", NEON.triple, (), (), {})


def test_emulation_takes_what_is_compiled() -> None:
    result = invoke("run", "net.onnx", "--emulate")
    assert result.exit_code == 1
    assert "Compile the model first" in result.stderr
