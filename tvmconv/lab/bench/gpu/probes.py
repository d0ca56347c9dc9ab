"""Rates of a GPU, measured by small kernels: FMA, memory, L2, and launches.

They check the figures of the cost model, and are the peak of a bench's shares.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from tvmconv.core.launch import Launch
from tvmconv.lab.bench.peak import Peak
from tvmconv.machines.cuda import CudaMachine
from tvmconv.measuring.gpu.compiled import Compiled, source_code
from tvmconv.measuring.gpu.driver import DeviceArray, Gpu
from tvmconv.measuring.gpu.kernel_run import GpuCall
from tvmconv.measuring.gpu.timing import Timer

_CHAINS, _STEPS, _THREADS = 16, 512, 256
_BLOCKS_EACH = 4
# bytes of the copy, and of a read that stays in L2, in sizes of L2
_COPIED, _KEPT = 8, 0.25
_READS = 16
_EMPTY_LAUNCHES = 100
REPEAT = 11

SOURCE = f"""
extern "C" __global__ void __launch_bounds__({_THREADS}) fma_kernel(float* __restrict__ out) {{
  float sums[{_CHAINS}];
  float factor = 0.999f + 1e-6f * ((int)threadIdx.x);
  #pragma unroll
  for (int j = 0; j < {_CHAINS}; ++j) sums[j] = j;
  for (int i = 0; i < {_STEPS}; ++i) {{
    #pragma unroll
    for (int j = 0; j < {_CHAINS}; ++j) sums[j] = sums[j] * factor + 1e-3f;
  }}
  float total = 0.0f;
  #pragma unroll
  for (int j = 0; j < {_CHAINS}; ++j) total += sums[j];
  out[((((int)blockIdx.x) * {_THREADS}) + ((int)threadIdx.x))] = total;
}}
extern "C" __global__ void __launch_bounds__({_THREADS}) copy_kernel(float* __restrict__ out, float* __restrict__ x) {{
  int place = ((((int)blockIdx.x) * {_THREADS}) + ((int)threadIdx.x)) * 4;
  *(float4*)(out + place) = *(float4*)(x + place);
}}
extern "C" __global__ void __launch_bounds__({_THREADS}) read_kernel(float* __restrict__ out, float* __restrict__ x) {{
  int place = ((((int)blockIdx.x) * {_THREADS}) + ((int)threadIdx.x)) * 4;
  int size = ((int)gridDim.x) * {_THREADS * 4};
  float total = 0.0f;
  for (int i = 0; i < {_READS}; ++i) {{
    float4 taken = *(float4*)(x + place);
    total += taken.x + taken.y + taken.z + taken.w;
    place += {_THREADS * 4 * 7};
    if (place >= size) place -= size;
  }}
  if (total == 12345.678f) out[0] = total;
}}
extern "C" __global__ void __launch_bounds__(32) empty_kernel(float* __restrict__ out) {{
  if (((int)threadIdx.x) > 31) out[0] = 0.0f;
}}
"""  # noqa: E501


class Probes:
    """The kernels on one GPU; ``folder`` may hold their compiled code."""

    def __init__(self, gpu: Gpu, machine: CudaMachine, folder: str | Path | None = None) -> None:
        self._gpu, self._timer = gpu, Timer(gpu)
        facts = gpu.facts()
        # the emulated driver reports neither
        self._multiprocessors = int(facts["multiprocessors"] or 1)
        self._l2_bytes = int(facts["l2_bytes"] or 1 << 16)
        fatbin, _ = source_code(SOURCE, machine, folder)
        self._fatbin = fatbin

    def fma(self) -> tuple[Callable[[], object], int]:
        """A call of the FMA probe, and its floating-point operations."""
        blocks = self._multiprocessors * _BLOCKS_EACH
        out = DeviceArray(self._gpu, (blocks * _THREADS,), "float32")
        return self._call("fma_kernel", blocks, out), 2 * blocks * _THREADS * _CHAINS * _STEPS

    def rates(self) -> dict[str, float]:
        """``fma_flops``, ``memory_bytes`` and ``l2_bytes`` a second, and ``launch_seconds``.

        A copy of eight times L2 counts the bytes that it reads and writes. L2 is read in a quarter
        of its size. A launch is a hundredth of a graph of empty kernels, each after the previous
        one.
        """
        run, operations = self.fma()
        found = {"fma_flops": operations / self._least(run)}
        each = _THREADS * 16
        blocks = max(1, _COPIED * self._l2_bytes // each)
        x, out = (DeviceArray(self._gpu, (blocks * _THREADS * 4,), "float32") for _ in range(2))
        found["memory_bytes"] = (
            2 * x.nbytes / self._least(self._call("copy_kernel", blocks, out, x))
        )
        blocks = max(8, int(_KEPT * self._l2_bytes) // each)
        read = self._call("read_kernel", blocks, out, x)
        found["l2_bytes"] = blocks * each * _READS / self._least(read)
        empty = self._call("empty_kernel", 1, out)

        def several() -> None:
            for _ in range(_EMPTY_LAUNCHES):
                empty()

        found["launch_seconds"] = self._least(several) / _EMPTY_LAUNCHES
        return found

    def samples(self, run: Callable[[], object], count: int, cache_bytes: int = 0) -> list[float]:
        """See :meth:`~tvmconv.measuring.gpu.timing.Timer.samples`."""
        return self._timer.samples(run, count, cache_bytes)

    def _least(self, run: Callable[[], object]) -> float:
        return min(self._timer.samples(run, REPEAT))

    def _call(self, name: str, blocks: int, *arrays: DeviceArray) -> Callable[[], object]:
        threads = 32 if name == "empty_kernel" else _THREADS
        launch = Launch(name, (blocks, 1, 1), (threads, 1, 1), tuple(range(len(arrays))))
        run = GpuCall(self._gpu, Compiled(self._fatbin, (launch,), ())).bind(arrays)

        def call(held: object = arrays) -> None:
            # the default value keeps the arrays alive
            run()

        return call


def gpu_peak(machine: CudaMachine, device: int = 0) -> Peak:
    """The GPU's :func:`~tvmconv.lab.bench.peak.measure_peak`: FP32 FMAs and a copy in its memory.

    ``device`` is the number of the GPU in the driver's order. Raises :class:`ArtifactError` if the
    driver, the GPU, or nvcc is missing.
    """
    probes = Probes(Gpu(device).open(), machine)
    run, operations = probes.fma()
    seconds = probes.samples(run, REPEAT)
    return Peak(
        threads=1,
        gflops=operations / min(seconds) * 1e-9,
        median_gflops=operations / median(seconds) * 1e-9,
        read_gbs=probes.rates()["memory_bytes"] * 1e-9,
    )
