"""Rewrites of TIR: passes that TVM and LLVM lack, and the pipeline that they make for a machine.

Begin with :mod:`~tvmconv.tir.pipeline`, which lists the passes in order, and
:mod:`~tvmconv.tir.annotations`, by which schedules ask for them. ``print(pipeline(machine))`` shows
the passes of one machine.

- ``general``: passes for every CPU, and what passes of all families share;
- ``x86``, ``amx``, ``neon``, ``sve``: one folder for each instruction family. Its ``__init__``
  lists the passes by the :class:`~tvmconv.tir.stages.Stage` at which they run;
- ``cuda``: passes for NVIDIA GPUs, whose pipeline is in ``cuda/lowering.py``.

The docstring of a pass gives the pattern that it rewrites, what it makes of it, and why at that
place. Each pass has a test of a tiny function before and after.
"""
