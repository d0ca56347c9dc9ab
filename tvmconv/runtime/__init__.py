"""Compiled modules: run, save, load, profile."""
