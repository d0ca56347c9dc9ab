"""Sweeps that hold every operator's kernel to its bound: see ``python -m tests.sweeps --help``."""
