"""Tuning: search the knobs of the schedules, measure, verify, log, and look records up."""
