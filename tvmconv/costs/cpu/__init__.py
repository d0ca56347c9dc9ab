"""Cost models of kernels whose vectors have a fixed length."""
