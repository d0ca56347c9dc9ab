"""TVM's own runtime, for kernels that are run by themselves: its library and its threads."""
