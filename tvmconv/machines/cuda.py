"""Machine models of NVIDIA GPUs: one for each supported architecture, and one for H200.

Costs are cycles of a streaming multiprocessor at the boost clock, as CPU costs are core cycles.
Figures are NVIDIA's own, from the documents named. Hopper's rate of L2 and time of a launch are
fitted to an H200.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

# NVIDIA's documents
_GUIDE = "CUDA C++ Programming Guide 13.0, table of technical specifications by compute capability"
_TUNING = "NVIDIA tuning guide of the architecture, CUDA 13.0"
_AMPERE = "NVIDIA A100 Tensor Core GPU Architecture, whitepaper V1.0, table 4"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture, whitepaper V2.1, table 9"
_ADA = "NVIDIA Ada GPU Architecture, whitepaper V2.1, table of the GeForce RTX 4090"
_HOPPER = "NVIDIA H100 Tensor Core GPU Architecture, whitepaper V1.04, table 3, H100 SXM5"
_HOPPER_MMA = (
    "Luo et al., Benchmarking and Dissecting the NVIDIA Hopper GPU Architecture via "
    "Microbenchmarking, 2024: mma on Hopper reaches 62.9 % of its peak"
)
_H200 = "NVIDIA H200 Tensor Core GPU, datasheet of 2024, H200 SXM"
_ASSUMED = "assumed, to be fitted on a GPU"
_FIT = dict.fromkeys(("l2_rate", "launch_seconds"), "fitted to 380 kernels on an H200")


@dataclass(frozen=True)
class CudaMachine:
    """A GPU as schedules and cost models see it.

    Parameters
    ----------
    name
        The target's name, ``cuda:sm_90`` or ``cuda:h200``.
    isa
        The architecture that nvcc compiles for, ``sm_90``.
    model
        The GPU whose figures these are; the architecture has others.
    multiprocessors
        Streaming multiprocessors (SM).
    clock_hertz
        Boost clock.
    lanes, registers
        FP32 FMAs of one SM in a cycle, and its 32-bit registers.
    threads, blocks_resident
        Maximum resident threads and blocks of one SM.
    shared_bytes, shared_block_bytes
        Shared memory of one SM, and the maximum for one block.
    shared_rate
        Bytes of shared memory that one SM reads in a cycle.
    l2_bytes, memory_bytes
        Sizes.
    l2_rate, memory_rate
        Bytes that all SMs together read in a cycle.
    launch_seconds
        Time from the end of a kernel to the start of the next one in the same stream.
    origins
        Pairs of a field and the document that states it.
    others
        Architectures besides ``isa`` for which models contain machine code; see :func:`joined`.
    tensor_tf32, tensor_fp16
        Tensor-core FMAs of one SM in a cycle, for dense TF32, and for FP16 with FP32 accumulation;
        0 if unknown.
    tensor_share
        The share of these that ``mma.sync`` can reach.
    """

    kind: ClassVar[str] = "cuda"
    family: ClassVar[str] = "cuda"
    # threads of the program on the caller's CPU
    cores: ClassVar[int] = 1
    channel_block: ClassVar[int] = 1
    runs_along_axes: ClassVar[bool] = False
    warp: ClassVar[int] = 32
    registers_thread: ClassVar[int] = 255
    # shared memory that every CUDA kernel may use without a request
    static_shared_bytes: ClassVar[int] = 48 << 10
    threads_block: ClassVar[int] = 1024

    name: str
    isa: str
    model: str
    multiprocessors: int
    clock_hertz: float
    lanes: int
    registers: int
    threads: int
    blocks_resident: int
    shared_bytes: int
    shared_block_bytes: int
    shared_rate: float
    l2_bytes: int
    l2_rate: float
    memory_bytes: int
    memory_rate: float
    launch_seconds: float
    origins: tuple[tuple[str, str], ...]
    others: tuple[str, ...] = ()
    tensor_tf32: float = 0.0
    tensor_fp16: float = 0.0
    tensor_share: float = 1.0

    @property
    def triple(self) -> str:
        """The triple of this system: the program that launches kernels is C for it."""
        return f"{platform.machine()}-linux-gnu"

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA's compute capability: (9, 0) for ``sm_90``."""
        return _capability(self.isa)

    @property
    def architectures(self) -> tuple[str, ...]:
        """All architectures for which models contain machine code, the oldest first."""
        return tuple(sorted({self.isa, *self.others}, key=_capability))

    @property
    def described(self) -> str:
        """The name with the GPU."""
        return f"{self.name} ({self.model})"

    @property
    def rates_origin(self) -> str:
        """The origin of the rates, none of which was measured."""
        return "NVIDIA's documents, not measured"

    def tensor_rate(self, precision: str) -> float:
        """FMAs of one SM in a cycle by ``mma.sync``, for ``tf32`` or ``fp16``."""
        peak = {"tf32": self.tensor_tf32, "fp16": self.tensor_fp16}[precision]
        return peak * self.tensor_share

    @property
    def last_cache_bytes(self) -> int:
        """Size of L2."""
        return self.l2_bytes

    @property
    def launch_cycles(self) -> float:
        """Cycles from the end of one kernel to the start of the next."""
        return self.launch_seconds * self.clock_hertz

    @property
    def record_facts(self) -> dict[str, Any]:
        """A GPU's figures by the names of a CPU's, which tuning records use."""
        return {
            "mcpu": self.model,
            "vector_registers": self.registers,
            "l1d_bytes": self.shared_bytes,
            "l3_bytes": 0,
            "cores": self.multiprocessors,
        }

    def blocks(self, channels: int) -> int:
        """The number of channels, because a block is one channel."""
        return channels

    def tvm_target(self) -> dict[str, Any]:
        """The target of the kernels, with TVM's limits for blocks."""
        return {
            "kind": "cuda",
            "arch": self.architectures[0],
            "max_threads_per_block": self.threads_block,
            "max_num_threads": self.threads_block,
            "max_shared_memory_per_block": self.static_shared_bytes,
            "thread_warp_size": self.warp,
            "registers_per_block": self.registers,
        }

    def to_json(self) -> dict[str, Any]:
        """Plain data for manifests and reports."""
        return {"kind": self.kind, **asdict(self), "origins": dict(self.origins)}


def read_cuda_machine(data: dict[str, Any]) -> CudaMachine:
    """Inverse of :meth:`CudaMachine.to_json`.

    Raises ``KeyError``, ``TypeError`` or ``ValueError`` if a field is missing or of another type.
    """
    given = {name: value for name, value in data.items() if name != "kind"}
    origins = tuple((str(k), str(v)) for k, v in dict(given["origins"]).items())
    others = tuple(map(str, given.get("others", ())))
    machine = CudaMachine(**{**given, "origins": origins, "others": others})
    for isa in (machine.isa, *others):
        if not isa.removeprefix("sm_").isdigit():
            raise ValueError(f"isa={isa!r} is not an architecture such as sm_90")
    return machine


def joined(first: CudaMachine, others: Sequence[CudaMachine]) -> CudaMachine:
    """The machine model for machine code of several architectures.

    Kernels are scheduled for the first. Their blocks use no more shared memory than every
    architecture allows.
    """
    shared = min(machine.shared_block_bytes for machine in (first, *others))
    isas = tuple(dict.fromkeys(m.isa for m in others if m.isa != first.isa))
    if not isas:
        return first
    name = ",".join((first.name, *isas))
    return replace(first, name=name, shared_block_bytes=shared, others=isas)


def _capability(isa: str) -> tuple[int, int]:
    return divmod(int(isa.removeprefix("sm_")), 10)


def _origins(chip: str, **others: str) -> tuple[tuple[str, str], ...]:
    """The document of each figure: ``chip``, unless ``others`` names another."""
    guide = ("registers", "threads", "blocks_resident", "shared_bytes", "shared_block_bytes")
    chips = (
        *("multiprocessors", "clock_hertz", "lanes", "l2_bytes", "memory_bytes", "memory_rate"),
        *("tensor_tf32", "tensor_fp16"),
    )
    found = {
        **dict.fromkeys(chips, chip),
        **dict.fromkeys(guide, _GUIDE),
        "shared_rate": f"{_TUNING}: 32 banks of 4 bytes",
        "l2_rate": _ASSUMED,
        "launch_seconds": _ASSUMED,
        "tensor_share": _ASSUMED,
        **others,
    }
    return tuple(found.items())


_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

_SM_80 = CudaMachine(
    name="cuda:sm_80",
    isa="sm_80",
    model="A100 SXM4 40 GB",
    multiprocessors=108,
    clock_hertz=1.410e9,
    lanes=64,
    registers=65536,
    threads=2048,
    blocks_resident=32,
    shared_bytes=164 * _KIB,
    shared_block_bytes=163 * _KIB,
    shared_rate=128.0,
    l2_bytes=40 * _MIB,
    l2_rate=5120.0,
    memory_bytes=40 * _GIB,
    memory_rate=1555e9 / 1.410e9,
    launch_seconds=2e-6,
    origins=_origins(_AMPERE, l2_rate=f"{_AMPERE}: 5120 bytes a clock"),
    tensor_tf32=512.0,
    tensor_fp16=1024.0,
)
_SM_86 = replace(
    _SM_80,
    name="cuda:sm_86",
    isa="sm_86",
    model="GeForce RTX 3090",
    multiprocessors=82,
    clock_hertz=1.695e9,
    lanes=128,
    threads=1536,
    blocks_resident=16,
    shared_bytes=100 * _KIB,
    shared_block_bytes=99 * _KIB,
    l2_bytes=6 * _MIB,
    l2_rate=2048.0,
    memory_bytes=24 * _GIB,
    memory_rate=936e9 / 1.695e9,
    origins=_origins(_GA102),
    tensor_tf32=128.0,
    tensor_fp16=256.0,
)
_SM_89 = replace(
    _SM_86,
    name="cuda:sm_89",
    isa="sm_89",
    model="GeForce RTX 4090",
    multiprocessors=128,
    clock_hertz=2.520e9,
    blocks_resident=24,
    l2_bytes=72 * _MIB,
    memory_rate=1008e9 / 2.520e9,
    origins=_origins(_ADA),
)
_SM_90 = replace(
    _SM_80,
    name="cuda:sm_90",
    isa="sm_90",
    model="H100 SXM5",
    multiprocessors=132,
    clock_hertz=1.980e9,
    lanes=128,
    shared_bytes=228 * _KIB,
    shared_block_bytes=227 * _KIB,
    l2_bytes=50 * _MIB,
    l2_rate=3550.0,
    memory_bytes=80 * _GIB,
    memory_rate=3352e9 / 1.980e9,
    launch_seconds=1e-6,
    origins=_origins(
        _HOPPER,
        **_FIT,
        clock_hertz="nvidia-smi's largest clock of the SXM5 board; the whitepaper has none",
        tensor_share=_HOPPER_MMA,
    ),
    tensor_tf32=1024.0,
    tensor_fp16=2048.0,
    tensor_share=0.629,
)
_H200_SXM = replace(
    _SM_90,
    name="cuda:h200",
    model="H200 SXM",
    l2_bytes=60 * _MIB,
    memory_bytes=141 * 10**9,
    memory_rate=4800e9 / _SM_90.clock_hertz,
    origins=_origins(
        _H200,
        **_FIT,
        **dict.fromkeys(("multiprocessors", "l2_bytes"), "NVIDIA's driver, of an H200 SXM"),
        clock_hertz="nvidia-smi's largest clock of an H200 SXM; by it the datasheet's 67 TFLOP/s",
        **dict.fromkeys(("lanes", "tensor_tf32", "tensor_fp16"), _HOPPER),
        tensor_share=f"{_HOPPER_MMA} (H100)",
    ),
)
MACHINES: dict[str, CudaMachine] = {
    machine.name: machine for machine in (_SM_80, _SM_86, _SM_89, _SM_90, _H200_SXM)
}
