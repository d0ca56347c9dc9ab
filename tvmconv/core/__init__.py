"""Data that every part uses: workloads, types, knobs, decisions, errors."""
