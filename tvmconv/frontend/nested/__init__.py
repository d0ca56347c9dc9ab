"""Reads sub-graphs (If, Loop, Scan) and local functions: in place, or as nested graphs."""
