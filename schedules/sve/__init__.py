"""Schedules for scalable vectors; what is not here has NEON code, by the shared schedules."""
