"""Convolution algorithms as tensor expressions for NVIDIA GPUs, one file each."""
