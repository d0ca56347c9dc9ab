"""Hand-written schedules, one folder for each target family."""
