"""From the lowered graph to machine code and a linked library."""
