"""Everything that touches the world, and everything that speaks its languages.

Imports go one way: cli -> dialects -> wire -> core.
"""
