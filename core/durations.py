"""Units of time. A duration or a time of a clock is a whole number of nanoseconds."""

MILLISECOND = 1_000_000
"""Nanoseconds of a millisecond."""

SECOND = 1_000_000_000
"""Nanoseconds of a second."""
