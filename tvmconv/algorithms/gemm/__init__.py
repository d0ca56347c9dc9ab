"""Convolution as matrix multiplication: packed GEMM, im2col, im2win, Strassen."""
