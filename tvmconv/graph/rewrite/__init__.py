"""Rewrites of the graph before layouts are planned."""
