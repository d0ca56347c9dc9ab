"""Convolution algorithms as tensor expressions, one file each."""
