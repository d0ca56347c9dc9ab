"""TIR passes for Arm SVE: vectors whose length is known at run time only."""
