"""Reads and validates files, manifests and options."""
