"""Saved models: manifest, checks, files."""
