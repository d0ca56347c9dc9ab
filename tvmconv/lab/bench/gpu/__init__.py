"""Benchmarks on an NVIDIA GPU: kernels and models that run without TVM."""
