"""Decisions of the service: no I/O, no clock, no log. Effects go through ``ports``.

``state`` is what the process knows, ``advice`` reads it, and only ``commit`` allocates.
"""
