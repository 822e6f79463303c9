"""The DeviceClasses of our driver, which the chart creates (templates/device-classes.yaml)."""

SHARE = "share.dragoman.dev"
"""A share of one card: all its memory and no reserved compute where no amount is stated."""

WHOLE = "whole.dragoman.dev"
"""All memory of one card."""

MIG = "mig.dragoman.dev"
"""One MIG slice, with at least the amounts that are stated."""

ALL = frozenset({SHARE, WHOLE, MIG})
"""All of them."""
