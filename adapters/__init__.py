"""Everything that does I/O or knows the formats of other projects.

Imports go one way: cli -> sidecar, node -> cluster, stores -> dialects -> wire -> core. A contract
in ``pyproject.toml`` checks it; docs/concepts/architecture.md describes the rooms.
"""
