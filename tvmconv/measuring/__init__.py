"""Code that tuning and benchmarks share: pinned CPUs, references, inputs, GPU timers."""
