"""Cost models of SVE kernels, whose vectors have no fixed length."""
