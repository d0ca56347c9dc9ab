"""Reports about models as tables, JSON, CSV and pages."""
