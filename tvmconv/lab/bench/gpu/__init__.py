"""Kernels on an NVIDIA GPU, one by one: compiled, launched and timed without TVM at run time."""
