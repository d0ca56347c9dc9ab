"""Planned memory of a compiled model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryReport:
    """Bytes that one model holds, and one call needs.

    Parameters
    ----------
    arena_bytes
        Activations of one call, which the model holds once for each call that runs at a time.
    output_bytes
        Outputs, which the caller holds.
    constant_bytes
        Packed weights and other constants, held once for all calls.
    workspace_bytes
        Scratch memory of one call, for all of its threads; as long as its activations.
    padding_bytes
        The part of activations and constants that is zeros added to fill channel blocks.
    """

    arena_bytes: int = 0
    output_bytes: int = 0
    constant_bytes: int = 0
    workspace_bytes: int = 0
    padding_bytes: int = 0
