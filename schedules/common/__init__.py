"""Scheduling operators that every family shares."""
