"""One scheduled function: which algorithms and schedules there are, and how they meet."""
