"""What every part passes around: workloads, types, knobs, decisions, errors."""
