"""Names of pods and nodes in a table."""

from collections.abc import Sequence

MAX_NODE_NAMES = 3
"""Nodes that are named, at most, where many have the same text."""


def short(full_name: str) -> str:
    """The name of a pod; with its namespace where it is not ``default``."""
    return full_name.removeprefix("default/")


def named(nodes: Sequence[str], count: int | None = None) -> str:
    """The first nodes by name, and the number of the others.

    Args:
        nodes: ``MAX_NODE_NAMES`` or more of them, or all.
        count: how many there are; None where these are all.
    """
    count = len(nodes) if count is None else count
    if count <= MAX_NODE_NAMES:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:MAX_NODE_NAMES])} and {count - MAX_NODE_NAMES} more nodes"
