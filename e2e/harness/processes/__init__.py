"""Processes that are started for a test, and cleaned up also when the test is killed."""
