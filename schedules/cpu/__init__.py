"""Schedules for AVX2 and AVX-512."""
