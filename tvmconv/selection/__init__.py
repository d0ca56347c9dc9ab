"""Chooses the algorithm of each layer."""
