"""Why a pod fits no node, or which ones: the reasons of all nodes, grouped by cause."""

from adapters.service.decide.advice.explain import Explanation
from adapters.service.web import answer_view

FITTING = 20
"""Nodes that fit and are named."""


def grouped(found: Explanation) -> dict[str, object]:
    """An explanation of one pod whose size does not depend on the number of nodes."""
    answer = found.answer
    return {
        "dialect": answer.dialect,
        "summary": answer.summary(),
        "notes": found.notes,
        "best": answer.best,
        "fitting": len(answer.fitting),
        "fits": answer.fitting[:FITTING],
        "rejected": len(answer.rejected),
        "groups": answer_view.groups(answer.groups()),
        "preemption": len(found.preemption_may_help),
    }
