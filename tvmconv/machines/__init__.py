"""Machine models: the CPUs and GPUs that code is generated for, and this host."""
