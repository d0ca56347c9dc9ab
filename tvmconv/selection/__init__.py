"""Selects the algorithm of each layer."""
