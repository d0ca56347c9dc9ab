"""Tuning records: their format, files, and which one a build takes."""
