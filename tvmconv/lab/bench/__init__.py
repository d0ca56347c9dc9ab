"""Benches: cases, implementations, tables."""
