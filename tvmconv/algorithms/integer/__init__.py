"""INT8 convolution: operand packing for the CPU's dot products, direct kernels for them, AMX."""
