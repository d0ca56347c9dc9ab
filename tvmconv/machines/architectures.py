"""Processor architectures: facts that the machine models of one architecture share.

An architecture is one record here. ``tvmconv/runtime/c/processor.c`` has the part of it that runs
on the processor: the check of CPU features and the instruction that waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Architecture:
    """Names that compilers, linkers and operating systems give an architecture and its features.

    Parameters
    ----------
    name
        The first part of LLVM's triple, and the name that ``uname -m`` prints.
    described
        A phrase for messages.
    marker
        A CPU flag that all code needs, and that no CPU of another architecture has.
    features
        LLVM's name -> the CPU flag, for instruction sets that code generation may select. System,
        cryptography and tuning flags are left out: generated kernels never use them.
    hwcap
        CPU flags in the order of the bits of AT_HWCAP, then of AT_HWCAP2, if Linux reports
        features there. Empty if ``/proc/cpuinfo`` lists them.
    switches
        LLVM's names of features that every target of the architecture switches on or off.
    options
        Further options of TVM's target.
    aliases
        Other names in triples.
    packages
        Triple -> Debian's packages with a cross compiler.
    large_section
        The section for data that code does not reach with 32 bits; empty if there is none.
    """

    name: str
    described: str
    marker: str
    features: Mapping[str, str]
    hwcap: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    large_section: str = ""

    def target_options(self, flags: tuple[str, ...]) -> dict[str, str | list[str]]:
        """Options of TVM's target with these CPU flags: ``mattr`` has ``+sve`` or ``-sve``."""
        attributes = ["-+"[self.features[name] in flags] + name for name in self.switches]
        return {**self.options, **({"mattr": attributes} if attributes else {})}


_X86_64 = Architecture(
    name="x86_64",
    described="an x86-64 CPU",
    marker="avx2",
    features={
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
    },
    large_section=".lrodata",
)
_AARCH64 = Architecture(
    name="aarch64",
    described="a 64-bit Arm CPU",
    marker="asimd",
    features={
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
    },
    hwcap=(
        *("fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32"),
        *("atomics", "fphp", "asimdhp", "cpuid", "asimdrdm", "jscvt", "fcma", "lrcpc"),
        *("dcpop", "sha3", "sm3", "sm4", "asimddp", "sha512", "sve", "asimdfhm"),
        *("dit", "uscat", "ilrcpc", "flagm", "ssbs", "sb", "paca", "pacg"),
        *("dcpodp", "sve2", "sveaes", "svepmull", "svebitperm", "svesha3", "svesm4", "flagm2"),
        *("frint", "svei8mm", "svef32mm", "svef64mm", "svebf16", "i8mm", "bf16", "dgh"),
    ),
    # on CPUs with SVE, LLVM would otherwise use it in NEON code
    switches=("sve",),
    aliases=("arm64",),
    packages={"aarch64-linux-gnu": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"},
)
_RISCV64 = Architecture(
    name="riscv64",
    described="a 64-bit RISC-V CPU",
    marker="v",
    # extensions of one letter, and minimum lengths of vectors, which only the C side can find out
    features={name: name for name in (*"acdfmv", "zvl256b", "zvl512b", "zvl1024b")},
    hwcap=tuple("abcdefghijklmnopqrstuvwxyz"),
    switches=(*"macfdv", "zvl256b"),
    # arguments of floating type are in registers, as in Linux distributions
    options={"mabi": "lp64d"},
    packages={"riscv64-linux-gnu": "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"},
)
ARCHITECTURES = {each.name: each for each in (_X86_64, _AARCH64, _RISCV64)}


def architecture_of(triple: str) -> Architecture | None:
    """The architecture of LLVM's triple; None if it is not supported."""
    name = triple.partition("-")[0]
    return next((a for a in ARCHITECTURES.values() if name in (a.name, *a.aliases)), None)
