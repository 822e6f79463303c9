"""Rounds of scheduling at scale, for tests and for the bench."""
