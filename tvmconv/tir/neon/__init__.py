"""TIR passes for 64-bit Arm with vectors of fixed length (NEON)."""
