"""Schedules for scalable vectors; operators without one use the shared NEON schedules."""
