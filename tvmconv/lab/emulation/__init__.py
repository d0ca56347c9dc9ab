"""CUDA kernels executed on the CPU, from their source: no GPU, no driver, no CUDA toolkit."""
