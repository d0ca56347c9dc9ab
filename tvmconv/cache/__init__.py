"""Compiled kernels and models in the user's cache folder, for later builds."""
