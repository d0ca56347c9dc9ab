"""Schedules that name no instruction set: those of every CPU family."""
