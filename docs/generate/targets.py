"""The page of the targets, from the machine models."""

from __future__ import annotations

from tvmconv.machines.listing import targets

_HEAD = """# Targets

For everyone who builds for another machine. `--target NAME`, `target="NAME"` in Python:

```sh
tvmconv targets
tvmconv compile model.onnx -o model.so --target x86-64-v3
```

| name | meaning |
|---|---|
| `native` | this CPU, with the features it has |
| `cuda` | the NVIDIA GPU of this machine |
| a name below | any machine of that kind |
| `sapphirerapids` | an x86-64 CPU by LLVM's name |
| `x86-64-v3,x86-64-v4` | one file for [several CPUs](../how-to/several-processors.md) |
| `llvm -mcpu=...` | any CPU that LLVM knows, such as `llvm -mcpu=sapphirerapids` |
| `llvm -mattr=...` | a set of features, such as `llvm -mattr=+avx2,+fma` |
| `llvm -mtriple=aarch64-linux-musl -mcpu=cortex-a72` | another architecture or libc |
| `cuda:sm_80,sm_90` | one file for several GPU architectures |

A saved model checks the features when it is opened.
Set `TVMCONV_HIDE_FEATURES=avx512` to build and test as if a CPU lacked features.

| target | architecture | instructions | status |
|---|---|---|---|
"""
_TAIL = """
Status:

- **measured**: timed on a machine of that kind; see the [benchmarks](../benchmarks/index.md).
- **emulated**: results verified under emulation; speed is estimated.

SVE targets run with any vector length, except `a64fx`, which has 512 bits.
`riscv64-v256` needs RISC-V vectors (RVV 1.0) of 256 bits or more.
Its results are correct under emulation, and its rates are assumed.
`ftengine` is the CPU of the [FTEngine paper](../benchmarks/papers.md).
"""
_MEASURED = ("x86-64-v3", "x86-64-v4", "cuda:sm_90", "cuda:h200")


def page() -> str:
    """Return the page."""
    rows = [
        f"| `{each.name}` | {each.architecture} | {each.isa} | "
        f"{'measured' if each.name in _MEASURED else 'emulated'} |\n"
        for each in targets()
    ]
    return "".join([_HEAD, *rows, _TAIL])
