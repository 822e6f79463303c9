"""Where a pod fits, and why it does not fit the other nodes. Nothing is allocated."""

import asyncio
from dataclasses import dataclass

import numpy as np

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.rejection import rejection_text
from adapters.service.decide.advice.feasibility import Feasibility
from adapters.service.decide.decisions import summary
from core.feasibility.node_names import NodeNames


@dataclass(frozen=True, slots=True)
class Explanation:
    """One pod against all nodes.

    Attributes:
        summary: in one line; of a pod that has cards, also where.
        best: the node that Dragoman would choose; None where none fits.
        fitting: nodes that fit, in the order of the inventory.
        rejected: by node, why it does not fit; for a ledger that cannot be read, what is wrong
            with it.
        preemption_may_help: rejected nodes that would fit if they were empty.
    """

    summary: str
    best: str | None
    fitting: tuple[str, ...]
    rejected: dict[str, str]
    preemption_may_help: tuple[str, ...]


async def explain(feasibility: Feasibility, pod_request: PodRequest) -> Explanation:
    """Evaluate all nodes for a pod. Other calls run in between; the time grows with the nodes."""
    ledgers = feasibility.ledgers
    names = NodeNames(ledgers.inventory.names())
    fits = await feasibility.fitting(pod_request, names)
    await asyncio.sleep(0)
    evaluation = feasibility.evaluate(pod_request)
    placement = evaluation.best()
    await asyncio.sleep(0)
    rejections = await feasibility.rejections(pod_request, names, np.logical_not(fits))
    await asyncio.sleep(0)
    counted = [(rejection.reason, nodes) for rejection, nodes in rejections.counts()]
    texts = [
        rejection_text(pod_request.request, rejection.reason) for rejection in rejections.distinct
    ]
    by_node = dict(zip(rejections.names, rejections.by_node(texts), strict=True))
    text = summary(counted) if placement is None else f"placed on {placement.node}"
    holds = ", ".join(node for node, _ in ledgers.committed(pod_request.request.uid))
    return Explanation(
        summary=f"has cards of {holds}; if it had none: {text}" if holds else text,
        best=None if placement is None else placement.node,
        fitting=names.select(fits).names,
        rejected={**by_node, **ledgers.problems()},
        preemption_may_help=tuple(sorted(rejections.where(unresolvable=False).names)),
    )
