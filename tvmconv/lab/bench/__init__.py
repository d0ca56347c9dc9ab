"""Benches: cases, contenders, peers, tables."""
