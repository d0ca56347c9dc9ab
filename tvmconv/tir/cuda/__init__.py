"""TIR passes for NVIDIA GPUs, and the lowering to CUDA source."""
