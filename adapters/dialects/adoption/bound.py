"""Allocations of pods that another scheduler bound."""

from collections.abc import Iterable

from adapters.dialects.dialect import AdoptedAllocation
from adapters.wire.kube import Pod, full_name
from core.hardware.card import Card
from core.hardware.node import Node
from core.requests.grant import Allocation


def adopted_allocation(
    pod: Pod, node: Node, dialect: str, adopted: AdoptedAllocation
) -> Allocation:
    """The allocation of a pod whose record was read."""
    return Allocation(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=dialect,
        node=node.name,
        grants=adopted.grants,
        task_class=adopted.task_class,
        qos=adopted.qos,
        group=adopted.group,
        member_of=adopted.member_of,
        exclusions=adopted.exclusions,
        priority=pod.spec.priority or 0,
    )


def unread_allocation(
    pod: Pod, node: Node, dialect: str, cards: Iterable[Card], why: str
) -> Allocation:
    """The allocation of a pod whose record is missing or unusable; ``why`` says what is wrong.

    All of ``cards`` count as in use: the pod may use each of them.
    """
    return Allocation(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=dialect,
        node=node.name,
        grants=(),
        priority=pod.spec.priority or 0,
        unread=why,
        blocked=frozenset(card.uuid for card in cards),
    )
