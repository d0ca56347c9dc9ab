"""Cycles of code for processors that are not at hand, estimated from counts: never measured.

A program is run under qemu, a plugin counts how often each block is executed, and ``llvm-mca``
says how long a processor takes for a block. See ``docs/arm.md`` for how far to trust it.
"""
