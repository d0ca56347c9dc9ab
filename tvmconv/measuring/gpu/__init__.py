"""Kernels on NVIDIA GPUs: compile, load, launch and time them."""
