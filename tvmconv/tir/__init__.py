"""Rewriting of TIR: each rewrite by itself, and the pipeline they make."""
