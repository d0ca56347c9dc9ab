"""Cycles of code for processors that are not at hand, estimated from counts: never measured.

A program is run under qemu, a plugin counts how often each block is executed, and ``llvm-mca``
says how long a processor takes for a block. See ``docs/arm.md`` for how far to trust it.

Of saved models and of kernels:

>>> from tvmconv.lab.estimation.estimate import estimate_model
>>> from tvmconv.lab.estimation.kernels import estimate_kernels
>>> estimate_model(Path("resnet18.so")).total.cycles  # doctest: +SKIP

Of any other program, which marks what is to be counted (:func:`~.counting.mark`):

>>> from tvmconv.lab.estimation.cores import core_of
>>> from tvmconv.lab.estimation.counting import counted
>>> from tvmconv.lab.estimation.estimate import section_costs
>>> sections = counted(hash, ["python3", "peer.py"], triple)  # doctest: +SKIP
>>> section_costs([sections[1]], core_of(machine), triple)  # doctest: +SKIP
"""
