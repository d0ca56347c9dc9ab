"""Hand-written schedules, one folder per target family."""
