"""From the planned graph to Relax calls of tensor expressions."""
