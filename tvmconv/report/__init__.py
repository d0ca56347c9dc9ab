"""Reports: what a model is and why, as tables, JSON, CSV and pages."""
