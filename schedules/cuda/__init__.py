"""Schedules of NVIDIA GPUs: blocks and threads in place of CPU loops and vectors."""
