"""The straight line of kernel calls that a network becomes."""
