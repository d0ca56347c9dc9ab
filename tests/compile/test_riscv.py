"""Models for 64-bit RISC-V with vectors of 256 bits or more, called under QEMU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tvmconv
from tests.assembly import assembly, matching
from tests.emulating import needs, run_model
from tests.graph.quantised_networks import single
from tests.small_network import small_network
from tvmconv.compile.emulation import run_emulated
from tvmconv.core.errors import ArtifactError, TargetError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.riscv import MACHINES
from tvmconv.machines.targets import resolve_machine

TRIPLE = "riscv64-linux-gnu"


def vectors_of(bits: int) -> tuple[str, str]:
    """Options of qemu for vectors of one length."""
    return "-cpu", f"rv64,v=true,vlen={bits},vext_spec=v1.0"


def expected(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@needs(TRIPLE)
@pytest.mark.parametrize("network", [small_network, single])
def test_networks(network, tmp_path: Path) -> None:
    onnx_model = network()
    shape = [d.dim_value for d in onnx_model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    model = tvmconv.build(onnx_model, "riscv64-v256", threads=2, log="none")
    for bits in (256, 512):
        (actual,) = run_model(model, tmp_path, x, options=vectors_of(bits))
        np.testing.assert_allclose(actual, expected(onnx_model, x), atol=1e-6)
    with pytest.raises(ArtifactError, match=r"lacks zvl256b.* built for riscv64-v256"):
        run_model(model, tmp_path, x, options=vectors_of(128))
    with pytest.raises(ArtifactError, match="needs a 64-bit RISC-V CPU"):
        tvmconv.load(tmp_path / "model.so")
    with pytest.raises(ArtifactError, match="lacks v, zvl256b"):
        run_emulated(tmp_path / "model.so", TRIPLE, (), (), {}, ("-cpu", "rv64"))


@pytest.mark.parametrize("algorithm", ["direct", "im2win"])
def test_the_tile_stays_in_registers(algorithm: str) -> None:
    machine = MACHINES["riscv64-v256"]
    kernel = make_kernel(Conv2dWorkload.parse("ic64ih14oc64kh3ph1+bias+relu"), machine, algorithm)
    lines = assembly(kernel).lines
    tile = kernel.config.int("oc") * kernel.config.int("ow")
    # an FMA multiplies a vector by a scalar register; sums are in other registers
    sums = [line.split()[1] for line in matching(r"vfmacc\.vf", lines)]
    assert tile <= len(set(sums)) <= machine.vector_registers
    assert len(sums) >= 2 * tile
    # LLVM spills by stores and loads of whole registers, such as vs1r.v and vl1r.v
    assert not matching(r"v[sl]\d+r", lines)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (f"llvm -mtriple={TRIPLE} -mattr=+m,+a,+f,+d,+c,+v,+zvl256b", "riscv64-v256"),
        (f"llvm -mtriple={TRIPLE} -mcpu=spacemit-x60", "spacemit-x60"),
    ],
)
def test_strings(target: str, name: str) -> None:
    machine = resolve_machine(target, 1)
    assert (machine.family, machine.name) == ("riscv", name)
    assert machine.vector.bits == 256


def test_without_long_vectors() -> None:
    with pytest.raises(TargetError, match="missing CPU features: a, c, d, f, m, v, zvl256b"):
        resolve_machine(f"llvm -mtriple={TRIPLE}")
    with pytest.raises(TargetError, match="missing CPU features: zvl256b"):
        resolve_machine(f"llvm -mtriple={TRIPLE} -mattr=+m,+a,+f,+d,+c,+v")
