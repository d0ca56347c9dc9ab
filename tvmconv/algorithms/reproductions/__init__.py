"""Algorithms in the exact form of a paper. They exist to be measured, not to be selected."""
