"""Cost models of GPU kernels."""
