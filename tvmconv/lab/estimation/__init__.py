"""Cycles of code for CPUs that are not at hand, estimated from counts: never measured.

A program runs under qemu, a plugin counts how often each block is executed, and ``llvm-mca``
simulates the cycles of a block. ``docs/how-to/deploy-arm.md`` describes the accuracy.

For saved models and kernels:

>>> from tvmconv.lab.estimation.estimate import estimate_model
>>> from tvmconv.lab.estimation.kernels import estimate_kernels
>>> estimate_model(Path("resnet18.so")).total.cycles  # doctest: +SKIP

For any other program, which marks the code to count (:func:`~.counting.mark`):

>>> from tvmconv.lab.estimation.cores import core_of
>>> from tvmconv.lab.estimation.counting import counted
>>> from tvmconv.lab.estimation.estimate import section_costs
>>> sections = counted(hash, ["python3", "library.py"], triple)  # doctest: +SKIP
>>> section_costs([sections[1]], core_of(machine), triple)  # doctest: +SKIP
"""
