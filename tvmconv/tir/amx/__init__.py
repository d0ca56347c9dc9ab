"""TIR passes for Intel AMX: tiles of bytes in tile registers."""
