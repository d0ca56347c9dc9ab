"""One scheduled function: the registered algorithms and schedules, and how they are combined."""
