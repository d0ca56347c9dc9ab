"""Code with scalable vectors, called under qemu at several vector lengths."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compile.test_arm import taken
from tests.emulation import check_kernels, needs_arm
from tvmconv.core.errors import ArtifactError
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.sve import MACHINES

A64FX = MACHINES["a64fx"].with_cores(2)
LENGTHS = (128, 256, 512, 1024, 2048)


def emulated(bits: int) -> tuple[str, str]:
    """Options of qemu for a program with vectors of one length, which is 512 by default."""
    return "-cpu", f"max,sve-max-vq={bits // 128},sve-default-vector-length={bits // 8}"


@needs_arm
def test_fixed_length_is_right_at_that_length_and_refused_at_others(tmp_path: Path) -> None:
    kernels = [make_kernel(taken(name, A64FX)[0], A64FX, name) for name in ("direct", "depthwise")]
    check_kernels(kernels, A64FX, tmp_path, emulated(512))
    for bits in (256, 1024):
        with pytest.raises(ArtifactError, match=rf"have {bits} bits, .* a64fx with .* 512 bits"):
            check_kernels(kernels, A64FX, tmp_path, emulated(bits))


@needs_arm
def test_without_scalable_vectors_it_is_refused(tmp_path: Path) -> None:
    kernels = [make_kernel(taken("direct", A64FX)[0], A64FX, "direct")]
    with pytest.raises(ArtifactError, match=r"lacks .*sve.* built for a64fx"):
        check_kernels(kernels, A64FX, tmp_path, ("-cpu", "cortex-a72"))


@needs_arm
@pytest.mark.slow
def test_every_algorithm_at_fixed_length(tmp_path: Path) -> None:
    names = registry.names()
    kernels = [make_kernel(w, A64FX, name) for name in names for w in taken(name, A64FX)[:3]]
    check_kernels(kernels, A64FX, tmp_path, emulated(512))
