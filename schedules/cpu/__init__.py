"""Schedules for every CPU family, without instruction sets."""
