"""Machine code of a program, as it is linked and cached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvmconv.compile.gpu import GpuCode


@dataclass(frozen=True)
class Objects:
    """Compiled kernels.

    ``code`` has the relocatable object file by symbol, in the order of the functions. ``workspace``
    has bytes of scratch memory that one thread uses in a call, by symbol of functions that use any.
    ``vectors`` describes the vectors in the code by symbol, for targets with scalable vectors; see
    :func:`~tvmconv.tir.general.record_vector_code.recorded_code`. ``gpu`` has the kernels of a GPU,
    in place of all these.
    """

    code: Mapping[str, bytes]
    workspace: Mapping[str, int]
    vectors: Mapping[str, str] = field(default_factory=dict)
    gpu: GpuCode | None = None
