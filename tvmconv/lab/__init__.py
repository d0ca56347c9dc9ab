"""Benchmarks, baselines, estimates and emulation. Nothing that builds or runs models imports it."""
