"""Reports, as tables and as JSON."""
