"""Fatbins: taken apart, joined, and written as NVIDIA's tools write them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.emulated_gpu import needs_nvcc
from tvmconv.compile.cuda_compiler import compile_fatbin, find_compiler
from tvmconv.compile.fatbin import (
    MACHINE_CODE,
    PTX,
    fatbin_of,
    lowered,
    new_part,
    parts_of,
    ptx_version,
    translatable,
)
from tvmconv.compile.nvcc import Nvcc, compile_cubin, find_nvcc
from tvmconv.compile.nvrtc import find_nvrtc
from tvmconv.core.errors import ArtifactError
from tvmconv.machines.cuda import MACHINES, joined

SM_80, SM_90 = MACHINES["cuda:sm_80"], MACHINES["cuda:sm_90"]
SOURCE = """#include <cstdint>
extern "C" __global__ void __launch_bounds__(64) sum_kernel(float* __restrict__ a, float* __restrict__ b) {
  __shared__ float both[64];
  both[threadIdx.x] = b[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  for (int32_t i = 0; i < 64; ++i) a[threadIdx.x] = fmaf(both[i], both[63 - i], a[threadIdx.x]);
}
"""  # noqa: E501
ELF = b"\x7fELF\x02\x01\x01A\x08" + bytes(55)


def _ptx(version: str) -> bytes:
    return f"// by a compiler\n\n.version {version}\n.target sm_90\n".encode() + b"\0"


def test_parts_are_what_was_joined():
    parts = [new_part(MACHINE_CODE, 80, ELF), new_part(PTX, 90, _ptx("7.8"))]
    found = parts_of(fatbin_of(parts))
    assert found == parts
    assert [part.version for part in found] == [(1, 8), (7, 8)]
    assert all(len(part.content) % 8 == 0 for part in found)


def test_what_is_no_fatbin_is_refused():
    whole = fatbin_of([new_part(PTX, 90, _ptx("7.8"))])
    for damaged in (b"", b"\x7fELF" + bytes(60), whole[:40], whole[:-8]):
        with pytest.raises(ValueError, match="fatbin"):
            parts_of(damaged)


def test_what_a_driver_can_translate_is_left_alone():
    code, ptx = new_part(MACHINE_CODE, 90, ELF), new_part(PTX, 90, _ptx("7.8"))
    assert translatable(fatbin_of([code, ptx])) == fatbin_of([ptx])
    assert translatable(fatbin_of([code])) is None
    assert translatable(fatbin_of([ptx])) is None


@pytest.mark.parametrize(
    ("architecture", "version", "expected"),
    [(90, "9.0", (7, 8)), (80, "8.8", (7, 0)), (90, "7.8", (7, 8)), (100, "9.0", (9, 0))],
)
def test_ptx_is_of_the_first_version_with_its_target(architecture, version, expected):
    found = lowered(_ptx(version), architecture)
    assert ptx_version(found) == expected
    assert found.splitlines()[3:] == _ptx(version).splitlines()[3:]


@needs_nvcc
class TestNvcc:
    def test_of_several_architectures_only_the_last_has_ptx(self):
        fatbin, resources = compile_fatbin(SOURCE, joined(SM_90, [SM_80]))
        parts = [(part.kind, part.architecture) for part in parts_of(fatbin)]
        assert parts == [(MACHINE_CODE, 80), (MACHINE_CODE, 90), (PTX, 90)]
        assert parts_of(fatbin)[-1].version == (7, 8)
        assert resources["sum_kernel"].shared_bytes == 256

    def test_the_earlier_version_of_ptx_has_the_same_machine_code(self):
        part = parts_of(compile_fatbin(SOURCE, SM_90)[0])[0]
        cubin, _ = compile_cubin(SOURCE, SM_90)
        assert new_part(MACHINE_CODE, 90, cubin).content == part.content

    def test_heads_are_those_that_nvidia_writes(self, tmp_path):
        written, result = tmp_path / "source.cu", tmp_path / "fatbin"
        written.write_text(SOURCE)
        form = [
            "-gencode",
            "arch=compute_90,code=[sm_90,compute_90]",
            "-Xfatbin",
            "-compress=false",
        ]
        kept = ["-keep", "-keep-dir", str(tmp_path), "-o", str(result), str(written)]
        subprocess.run([find_nvcc(), "-fatbin", *form, *kept], check=True, capture_output=True)
        code, ptx = parts_of(result.read_bytes())
        (cubin,) = tmp_path.glob("*.cubin")
        assert new_part(MACHINE_CODE, 90, cubin.read_bytes()) == code
        # it leaves out the text's comments
        text = ptx.content[ptx.content.index(b".version") :]
        own = new_part(PTX, 90, text)
        head = len(own.content) - len(text)
        assert own.content[:8] + own.content[16:head] == ptx.content[:8] + ptx.content[16:head]

    def test_without_a_compiler_for_cpp_a_sentence_says_what_to_install(self, monkeypatch):
        monkeypatch.setenv("NVCC", str(Path(find_nvcc()).resolve()))
        monkeypatch.setenv("PATH", "/nonexistent")
        with pytest.raises(ArtifactError, match=r"(?s)host compiler.*install g\+\+, or take NVRTC"):
            compile_fatbin(SOURCE, SM_90)

    def test_ptx_that_needs_a_later_version_keeps_its_own(self, monkeypatch):
        monkeypatch.setattr("tvmconv.compile.fatbin._LEAST", {90: (6, 0)})
        assert parts_of(compile_fatbin(SOURCE, SM_90)[0])[-1].version > (7, 8)


class TestNvrtc:
    @pytest.fixture
    def library(self, monkeypatch) -> str:
        found = find_nvrtc()
        if found is None:
            pytest.skip("needs NVRTC: pip install nvidia-cuda-nvrtc")
        monkeypatch.setenv("NVRTC", found)
        return found

    def test_it_makes_what_nvcc_makes(self, library):
        assert find_compiler().path == library
        fatbin, resources = compile_fatbin(SOURCE, joined(SM_90, [SM_80]))
        parts = [(part.kind, part.architecture) for part in parts_of(fatbin)]
        assert parts == [(MACHINE_CODE, 80), (MACHINE_CODE, 90), (PTX, 90)]
        found = resources["sum_kernel"]
        assert found.registers > 0
        assert (found.shared_bytes, found.spill_bytes) == (256, 0)

    def test_a_source_that_it_refuses_is_told_with_the_line(self, library):
        with pytest.raises(ArtifactError, match=r"(?s)does not compile kernels for sm_90.*error"):
            compile_fatbin(SOURCE.replace("fmaf", "no_such"), SM_90)


def test_nvrtc_is_taken_where_there_is_no_nvcc(monkeypatch):
    monkeypatch.delenv("NVRTC", raising=False)
    library = Path("/somewhere/libnvrtc.so.13")
    monkeypatch.setattr(
        "tvmconv.compile.nvrtc.libraries", lambda: [library, library.with_suffix(".12")]
    )
    monkeypatch.setattr("tvmconv.compile.cuda_compiler.find_program", lambda name: "/bin/nvcc")
    monkeypatch.setattr("tvmconv.compile.nvcc.find_program", lambda name: "/bin/nvcc")
    assert find_compiler() == Nvcc("/bin/nvcc")
    monkeypatch.setattr("tvmconv.compile.cuda_compiler.find_program", lambda name: None)
    assert find_compiler().path == str(library)
    with pytest.raises(ArtifactError, match=r"libnvrtc\.so\.13 does not compile .*(?s:.)*No such"):
        compile_fatbin(SOURCE, SM_90)


def test_a_part_can_hold_anything_else():
    part = new_part(0x7A00, 0, b"1234")
    assert parts_of(fatbin_of([part])) == [part]
