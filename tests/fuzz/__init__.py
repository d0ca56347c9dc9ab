"""Damaged and hostile inputs of every kind, each tried in a process of its own.

``python -m tests.fuzz models --seconds 3600 --seed 1`` prints how many attempts worked, were
refused with one of tvmconv's errors, or ended in what must not happen.
"""
