"""CPU features that the code of a module may use, by their names in ``/proc/cpuinfo``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine

# LLVM's name -> the kernel's, for instruction sets that code generation may select.
# System, cryptography and tuning flags are left out: generated kernels never use them.
_LLVM_TO_CPUINFO = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "popcnt": "popcnt",
    "lzcnt": "abm",
    "movbe": "movbe",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "tbm": "tbm",
    "xop": "xop",
    "fma4": "fma4",
    "f16c": "f16c",
    "fma": "fma",
    "avx": "avx",
    "avx2": "avx2",
    "avxvnni": "avx_vnni",
    "avxifma": "avx_ifma",
    "gfni": "gfni",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512vp2intersect": "avx512_vp2intersect",
    # AArch64
    "fp-armv8": "fp",
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "fp16fml": "asimdfhm",
    "dotprod": "asimddp",
    "rdm": "asimdrdm",
    "lse": "atomics",
    "rcpc": "lrcpc",
    "complxnum": "fcma",
    "jsconv": "jscvt",
    "fptoint": "frint",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
}


@cache
def required_features(machine: Device) -> tuple[str, ...]:
    """CPU flags that a module built for ``machine`` may need.

    The union of the model's own list and of all instruction sets that LLVM enables for its CPU
    name. Empty for GPUs, because the code that launches their kernels is plain C.
    """
    if not isinstance(machine, Machine):
        return ()
    return tuple(sorted(enabled_features(machine.tvm_target()) | set(machine.features)))


def enabled_features(target: Mapping[str, Any]) -> frozenset[str]:
    """CPU flags of the instruction sets that LLVM enables for a target in TVM's dictionary form."""
    from tvmconv.tvm_api.target import features

    # cl-opt is a setting of the whole process, not an instruction set
    others = ("num-cores", "cl-opt")
    options = {key: value for key, value in target.items() if key not in others}
    enabled = features(options)
    return frozenset(_LLVM_TO_CPUINFO[name] for name in enabled if name in _LLVM_TO_CPUINFO)
