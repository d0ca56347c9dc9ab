"""Relax graph: normalization, epilogue matching, layout planning, substitution."""
