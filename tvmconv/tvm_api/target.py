"""Targets, and what TVM's LLVM knows of processors (``tvm.target``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.target import Target, codegen

from tvmconv.tvm_api import types


def features(options: Mapping[str, Any]) -> frozenset[str]:
    """Instruction sets that LLVM enables for a target's options, by LLVM's names."""
    return frozenset(map(str, codegen.llvm_get_cpu_features(Target(dict(options)))))


def processors(options: Mapping[str, Any]) -> frozenset[str]:
    """Values of ``mcpu`` that LLVM knows for the architecture of a target's options."""
    return frozenset(map(str, codegen.llvm_get_cpu_archlist(Target(dict(options)))))


def host_processor() -> str | None:
    """LLVM's name of the host processor; None where it finds none."""
    host: types.Target = Target.from_device("cpu")
    mcpu = host.attrs.get("mcpu")
    return str(mcpu) if mcpu else None


def llvm_version() -> str:
    """LLVM's major version."""
    return str(codegen.llvm_version_major())
