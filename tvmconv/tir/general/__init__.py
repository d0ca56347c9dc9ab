"""TIR passes for every CPU, and what passes of all families share."""
