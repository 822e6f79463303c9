"""Decisions of the service: no I/O, no clock, no log. Effects go through ``ports``."""
