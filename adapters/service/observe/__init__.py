"""Metrics, and the log of decisions."""
