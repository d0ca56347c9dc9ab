"""Relax graph: normalisation, epilogue matching, layout planning, substitution."""
