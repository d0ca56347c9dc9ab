"""CUDA source to fatbins by nvcc and NVRTC; heads of parts as NVIDIA's tools write them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.emulated_gpu import needs_nvcc
from tvmconv.compile.cuda_compiler import compile_fatbin, find_compiler
from tvmconv.compile.nvcc import Nvcc, compile_cubin, find_nvcc
from tvmconv.compile.nvrtc import find_nvrtc
from tvmconv.core.errors import ArtifactError
from tvmconv.core.fatbin import (
    MACHINE_CODE,
    PTX,
    new_part,
    parts_of,
)
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
        with pytest.raises(ArtifactError, match=r"(?s)host compiler.*Install g\+\+, or use NVRTC"):
            compile_fatbin(SOURCE, SM_90)

    def test_ptx_that_needs_a_later_version_keeps_its_own(self, monkeypatch):
        monkeypatch.setattr("tvmconv.core.fatbin._LEAST", {90: (6, 0)})
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

    def test_a_source_that_it_refuses_is_reported_with_the_line(self, library):
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
