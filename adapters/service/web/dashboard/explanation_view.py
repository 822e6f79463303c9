"""Why a pod fits no node, or which ones: the reasons of all nodes, grouped and counted."""

from collections.abc import Mapping

from adapters.service.decide.advice.explain import Explanation

GROUPS = 50
"""Reasons that are shown, the most frequent first."""

EXAMPLES = 5
"""Nodes that are named for each reason."""

FITTING = 20
"""Nodes that fit and are named."""


def grouped(found: Explanation) -> dict[str, object]:
    """An explanation of one pod whose size does not depend on the number of nodes."""
    by_text: dict[str, list[str]] = {}
    for node, text in found.rejected.items():
        by_text.setdefault(text, []).append(node)
    groups = sorted(by_text.items(), key=lambda each: (-len(each[1]), each[0]))
    may_help = frozenset(found.preemption_may_help)
    return {
        "best": found.best,
        "fitting": len(found.fitting),
        "fits": found.fitting[:FITTING],
        "rejected": len(found.rejected),
        "reasons": len(groups),
        "groups": [_group(text, names, may_help) for text, names in groups[:GROUPS]],
    }


def _group(text: str, names: list[str], may_help: frozenset[str]) -> Mapping[str, object]:
    return {
        "text": text,
        "nodes": len(names),
        "examples": names[:EXAMPLES],
        "preemption": any(name in may_help for name in names),
    }
