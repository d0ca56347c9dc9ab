"""Reads targets in all forms: presets, the classic option string, or a TVM Target."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any, TypeAlias

from tvmconv.core.arguments import MOST_THREADS, nearest, whole
from tvmconv.core.errors import TargetError
from tvmconv.machines import arm, cuda
from tvmconv.machines.architectures import ARCHITECTURES, Architecture, architecture_of
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.cuda_native import native_gpu
from tvmconv.machines.gate import lacks
from tvmconv.machines.host import host_cores, native_machine
from tvmconv.machines.presets import MACHINES, similar
from tvmconv.machines.record import Machine, processor
from tvmconv.machines.saved import as_measured
from tvmconv.machines.x86 import as_processor, with_tiles
from tvmconv.tvm_api.types import Target

# a preset or classic string, TVM's dictionary form, its object, or a machine model
TargetLike: TypeAlias = "str | dict[str, Any] | Target | Machine | CudaMachine"

PRESETS = ("native", *MACHINES)
GPUS = tuple(cuda.MACHINES)

# options of "llvm" targets that are read; TVM and to_json add others to dictionaries
_OPTIONS = {"kind", "mcpu", "mattr", "mtriple"}
_PASSED_OVER = {"keys", "tag", "host", "num-cores", "cl-opt"}


def resolve_device(
    target: TargetLike = "native", threads: int | None = None, gpu: int = 0
) -> Machine | CudaMachine:
    """The machine model of a target, a CPU or a GPU.

    Raises ``TargetError`` if the target is unknown, or a GPU without schedules.

    Parameters
    ----------
    target
        A GPU: ``cuda:sm_90``, ``cuda:sm_80,sm_90`` for code of both (scheduled for the first),
        ``cuda`` for the GPU of this host, or TVM's target with ``arch``. Otherwise as in
        :func:`resolve_machine`.
    threads
        As in :func:`resolve_machine`; GPU kernels are called by one thread.
    gpu
        Which GPU of this host ``cuda`` is, as the driver counts them.
    """
    found = _gpu(target, gpu)
    return resolve_machine(target, threads) if found is None else found


def _gpu(target: TargetLike, index: int = 0) -> CudaMachine | None:
    """The GPU of a target, or None if it is a CPU; ``cuda`` is the GPU of this host's number."""
    if isinstance(target, CudaMachine):
        return target
    if (options := _tvm_options(target)) and options.get("kind") == "cuda":
        # TVM's own target, which others pass to relax.build; its limits of blocks are not read
        target = ":".join(("cuda", *([str(options["arch"])] if "arch" in options else [])))
    if not isinstance(target, str) or target.partition(":")[0] != "cuda":
        return None
    if target == "cuda":
        return native_gpu(index)
    machines = []
    for isa in target.removeprefix("cuda:").split(","):
        if f"cuda:{isa}" not in cuda.MACHINES:
            if isa.strip() in MACHINES or isa.strip() == "native":
                raise TargetError(
                    f"target {target!r} has the CPU {isa.strip()}. Expected GPUs only, such as "
                    "cuda:sm_80,sm_90. Build a model for each."
                )
            raise TargetError(
                f"unsupported target 'cuda:{isa}'. Supported GPU targets: {', '.join(GPUS)}."
            )
        machines.append(cuda.MACHINES[f"cuda:{isa}"])
    return cuda.joined(machines[0], machines[1:])


def resolve_machine(target: TargetLike = "native", threads: int | None = None) -> Machine:
    """The machine model of a target; for ``native`` with measurements of this host.

    Raises ``TargetError`` if the target is unknown or its instruction set has no schedules.

    Parameters
    ----------
    target
        A preset (``native``, ``x86-64-v3``, ``aarch64``), LLVM's name of an x86-64 CPU
        (``sapphirerapids``), a classic string such as
        ``llvm -mcpu=cascadelake -mattr=+avx512f`` or
        ``llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72``, a TVM target dictionary or
        ``Target``, or a :class:`Machine`.
    threads
        Threads to partition the kernels for; by default all CPUs this process may use.
    """
    machine = shipped_machine(target, threads)
    return as_measured(machine) if target == "native" else machine


def shipped_machine(target: TargetLike = "native", threads: int | None = None) -> Machine:
    """As :func:`resolve_machine`, without measurements of this host."""
    if threads is not None:
        threads = whole(threads, "threads", high=MOST_THREADS, error=TargetError)
    return processor(_gpu(target) or _resolve(target)).with_cores(threads or host_cores())


def _resolve(target: TargetLike) -> Machine:
    if isinstance(target, Machine):
        return target
    if isinstance(target, str):
        if target == "native":
            return _native()
        if target in MACHINES:
            return MACHINES[target]
        if "," in target and "=" not in target:
            raise TargetError(
                f"target {target!r} is a list. Expected one target here. Name one of these, and "
                "repeat the call for each; tvmconv.build takes a Python list."
            )
        options = _named(target) or _parse_classic(target)
    elif (read := _tvm_options(target)) is not None:
        options = read
    else:
        raise TargetError(
            f"unsupported type of target {target!r}; supported: string, dictionary, TVM Target and "
            "Machine"
        )
    return _from_options(options, target)


def _tvm_options(target: TargetLike) -> dict[str, Any] | None:
    """The options of a target in TVM's dictionary form, or as an object; None for other targets."""
    if isinstance(target, dict):
        return dict(target)
    if hasattr(target, "attrs") and hasattr(target, "kind"):
        return {"kind": str(target.kind), **{str(k): v for k, v in target.attrs.items()}}
    return None


def _native() -> Machine:
    """This host, with code for its generic name if features of the CPU are hidden.

    A hypervisor may hide some, or the variable ``TVMCONV_HIDE_FEATURES``. The costs stay the
    CPU's own, whose caches and units are the same.
    """
    machine = native_machine(_host_mcpu())
    return replace(machine, mcpu=native_machine().mcpu) if lacks(machine) else machine


def _named(target: str) -> dict[str, Any] | None:
    """The options of a target that is LLVM's name of an x86-64 CPU."""
    from tvmconv.tvm_api.target import processors

    options = {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}
    # LLVM knows many names without vectors of 256 bits: a classic string reports these
    if not target.replace("-", "").isalnum() or target in ("generic", "llvm", "x86-64"):
        return None
    return {**options, "mcpu": target} if target in processors(options) else None


def _parse_classic(text: str) -> dict[str, Any]:
    try:
        kind, *rest = shlex.split(text) or [""]
    except ValueError as error:
        raise TargetError(f"target {text!r}: {error}") from None
    options: dict[str, Any] = {"kind": kind}
    for option in rest:
        name, equals, value = option.lstrip("-").partition("=")
        if not option.startswith("-") or not equals:
            raise TargetError(
                f"target {text!r}: cannot read {option!r}; write options as -name=value, "
                f"or use a preset: {', '.join(PRESETS)}"
            )
        options[name] = value.split(",") if name == "mattr" else value
    return options


def _from_options(options: dict[str, Any], original: TargetLike) -> Machine:
    if options.get("kind") != "llvm":
        names = (*PRESETS, "cuda", *GPUS)
        guess = nearest(options.get("kind"), names)
        raise TargetError(
            f"unsupported target {original!r}; {guess}use 'llvm ...' or a preset: "
            f"{', '.join(names)}"
        )
    read = _OPTIONS if isinstance(original, str) else _OPTIONS | _PASSED_OVER
    if isinstance(original, str | dict) and (others := set(options) - read):
        raise TargetError(
            f"target {original!r}: {', '.join(sorted(others))} would change nothing; "
            "options are mcpu, mattr and mtriple, and threads= says how many cores"
        )
    triple = str(options.get("mtriple", "x86_64"))
    known = architecture_of(triple)
    if known is None:
        raise TargetError(
            f"target {original!r}: unsupported architecture {triple}. "
            f"Supported: {', '.join(ARCHITECTURES)}."
        )
    read_options = {"x86_64": _x86, "aarch64": _arm}.get(known.name)
    if read_options is None:
        return _by_features(options, triple, known, original)
    return read_options(options, triple, original)


def _by_features(
    options: dict[str, Any], triple: str, known: Architecture, original: TargetLike
) -> Machine:
    """The model with the longest vectors whose CPU features LLVM enables."""
    models = [m for m in MACHINES.values() if m.architecture == known.name]
    mcpu = str(options.get("mcpu", models[0].mcpu))
    asked = sorted(str(a) for a in options.get("mattr", ()))
    triple = triple if "-" in triple else models[0].triple
    enabled = _llvm_features(mcpu, asked, triple, repr(models[0].mcpu))
    flags = {known.features[name] for name in enabled & known.features.keys()}
    fitting = [m for m in models if set(m.features) <= flags]
    if not fitting:
        lacking = sorted(set(models[0].features) - flags)
        names = [f"+{name}" for name, flag in known.features.items() if flag in lacking]
        raise TargetError(
            f"target {original!r}: missing CPU features: {', '.join(lacking)}. "
            f"Add -mattr={','.join(names)} or name another -mcpu."
        )
    record = max(fitting, key=lambda machine: machine.vector.bits)
    name = record.name if record.mcpu == mcpu else mcpu
    return replace(record, name=name, mcpu=mcpu, triple=triple)


def _x86(options: dict[str, Any], _: str, original: TargetLike) -> Machine:
    """A CPU with AVX2 or AVX-512."""
    mcpu = str(options.get("mcpu", "x86-64"))
    asked = {str(a) for a in options.get("mattr", ())}
    enabled = _llvm_features(mcpu, sorted(asked), "x86_64-linux-gnu", "'x86-64-v3' or 'x86-64-v4'")
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
    if wide <= enabled:
        record = MACHINES["x86-64-v4"]
    elif {"avx2", "fma"} <= enabled:
        record = MACHINES["x86-64-v3"]
    else:
        raise TargetError(
            f"target {original!r}: -mcpu={mcpu} without AVX2 and FMA is not supported; "
            "add -mattr=+avx2,+fma or name a newer -mcpu"
        )
    if mcpu == "x86-64":
        mcpu = record.mcpu
    record = as_processor(record, mcpu)
    if {"amx-tile", "amx-int8"} <= enabled:
        record = with_tiles(record)
    return replace(record, name=mcpu)


def _arm(options: dict[str, Any], triple: str, original: TargetLike) -> Machine:
    """A CPU with NEON, or with SVE if the target requests it."""
    vendor_and_system = triple.partition("-")[2]
    if not re.fullmatch(r"((unknown|none|pc)-)?linux(-(gnu|musl|android\d*))?|", vendor_and_system):
        raise TargetError(
            f"target {original!r}: unsupported system; supported on AArch64: Linux, such as "
            "-mtriple=aarch64-linux-gnu, aarch64-linux-musl or aarch64-linux-android"
        )
    triple = triple.replace("arm64", "aarch64") if vendor_and_system else "aarch64-linux-gnu"
    mcpu = str(options.get("mcpu", "generic"))
    asked = {str(a) for a in options.get("mattr", ())}
    enabled = _llvm_features(mcpu, sorted(asked), triple, "'generic' or 'cortex-a72'")
    if not {"neon", "fp-armv8"} <= enabled:
        raise TargetError(
            f"target {original!r}: AArch64 without NEON is not supported. Leave out -neon."
        )
    named = similar("sve512", mcpu)
    if named is not None and named.mcpu == mcpu:
        return replace(named, triple=triple)
    isa = "neon"
    if scalable := sorted(a for a in asked if a.startswith(("+sve", "+sme"))):
        if scalable != ["+sve"]:
            raise TargetError(
                f"target {original!r}: {scalable[-1]} is not supported. Use +sve alone, "
                "which runs there too."
            )
        isa = "sve"
    record = similar(isa, mcpu) or arm.MACHINES["aarch64"]
    name = record.name if record.mcpu == mcpu else mcpu + "+sve" * (isa == "sve")
    return replace(record, name=name, mcpu=mcpu, triple=triple)


def _llvm_features(mcpu: str, mattr: list[str], triple: str, known: str) -> frozenset[str]:
    """Instruction sets that LLVM enables for a processor name and attribute list."""
    from tvmconv.tvm_api.target import features, processors

    options: dict[str, Any] = {"kind": "llvm", "mtriple": triple}
    # checked before LLVM is asked, because TVM would print a line about an unknown name
    if mcpu not in processors(options):
        raise TargetError(f"LLVM does not know -mcpu={mcpu}; try {known}")
    options["mcpu"] = mcpu
    enabled = features({**options, "mattr": mattr} if mattr else options)
    # LLVM ignores what it cannot read
    for attribute in mattr:
        if attribute[:1] not in ("+", "-"):
            raise TargetError(
                f"-mattr={attribute} has no sign. Write +{attribute} or -{attribute}."
            )
        if attribute[0] == "+" and attribute[1:] not in enabled:
            raise TargetError(
                f"-mattr={','.join(mattr)}: LLVM does not enable {attribute[1:]}. Correct its "
                "name, or remove the attribute that disables it."
            )
    return enabled


def _host_mcpu() -> str | None:
    """LLVM's name of the host processor."""
    from tvmconv.tvm_api.target import host_processor

    return host_processor()
