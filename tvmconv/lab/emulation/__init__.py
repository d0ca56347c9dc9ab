"""CUDA kernels executed on the processor, from their source: no GPU, no driver, no CUDA toolkit."""
