"""Schedules of NVIDIA GPUs: blocks and threads in place of the processors' loops and vectors."""
