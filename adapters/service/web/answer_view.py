"""The groups of an answer in JSON, for people and the dashboard."""

from collections.abc import Iterable

from adapters.answer.answer import NodeGroup


def groups(found: Iterable[NodeGroup]) -> list[dict[str, object]]:
    """The nodes that a pod does not fit, by cause, the nearest to a fit first."""
    return [{"text": each.text, "nodes": each.nodes, "examples": each.examples} for each in found]
