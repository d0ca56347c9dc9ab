"""Measured configurations, shipped as data."""
