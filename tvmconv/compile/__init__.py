"""Lowers, schedules what is left, builds and links."""
