"""TIR passes that TVM and LLVM lack, and their pipeline for each machine.

Begin with :mod:`~tvmconv.tir.pipeline`, which lists the passes in order. Schedules request passes
by :mod:`~tvmconv.tir.annotations`. ``print(pipeline(machine))`` shows the passes of one machine.

- ``general``: passes for every CPU, and helpers that the passes of all families share;
- ``x86``, ``amx``, ``neon``, ``sve``: one folder for each instruction family. Its ``__init__``
  lists the passes by the :class:`~tvmconv.tir.stages.Stage` at which they run;
- ``cuda``: passes for NVIDIA GPUs, whose pipeline is in ``cuda/pipeline.py``.

The docstring of a pass gives the pattern, the rewrite, and the reason for its place in the
pipeline. Each pass has a test that compares a tiny function before and after.
"""
