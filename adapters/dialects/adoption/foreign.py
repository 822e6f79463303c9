"""Reads the allocations that other schedulers recorded on a pod.

A pod that requests no resource of a dialect can have HAMi's record: its resource names are
configurable (HAMi v2.10.0 charts/hami/values.yaml ``resourceName``), the record is always the same
annotation.
"""

from collections.abc import Iterable, Sequence

from adapters.dialects.containers import PodContainer, pod_containers
from adapters.dialects.dialect import AdoptedAllocation, DialectError, UnclearRecord
from adapters.dialects.formats.device_list import list_owners, listed_grant, read_device_lists
from adapters.dialects.formats.hami_record import (
    HAMI,
    MIG_ALLOCATIONS,
    NVIDIA_ALLOCATED,
    check_node,
)
from adapters.dialects.formats.hami_result import check_slices
from adapters.dialects.formats.koordinator_record import read_allocated
from adapters.wire.kube import Pod, annotations, full_name
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.requests.grant import Allocation, Grant
from core.requests.request import Phase


def adopted_allocation(
    pod: Pod, node: Node, dialect: str, adopted: AdoptedAllocation
) -> Allocation:
    """Return the allocation of a pod whose record was read."""
    return Allocation(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=dialect,
        node=node.name,
        grants=adopted.grants,
        terms=adopted.terms,
        priority=pod.spec.priority or 0,
    )


def unread_allocation(
    pod: Pod, node: Node, dialect: str, cards: Iterable[Card], why: str
) -> Allocation:
    """Return the allocation of a pod whose record is missing or unusable.

    ``why`` says what is wrong.

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


NVIDIA = "nvidia"


def adopt_foreign(pod: Pod, node: Node) -> Allocation | None:
    """Return the allocation of a bound pod that requests no resource of a dialect.

    None without one.
    """
    if not any(annotations(pod).get(key) for key in (NVIDIA_ALLOCATED, MIG_ALLOCATIONS)):
        return None
    try:
        grants = read_hami(pod, node)
        return adopted_allocation(pod, node, HAMI, AdoptedAllocation(grants))
    except DialectError as error:
        named = error.cards if isinstance(error, UnclearRecord) else None
        cards = [
            card
            for card in node.cards
            if (card.vendor == NVIDIA if named is None else card.uuid in named)
        ]
        return unread_allocation(pod, node, HAMI, cards, str(error))


def read_hami(pod: Pod, node: Node, requesting: Sequence[PodContainer] = ()) -> tuple[Grant, ...]:
    """Return grants by HAMi's record.

    The record of slices is not resolved here: the grant of a partitioned card has no slice.

    Args:
        pod: the pod.
        node: where it runs.
        requesting: its containers that request cards, where that is known: HAMi v2.10 omits the
            lists of the others.

    Raises:
        DialectError: the record cannot be parsed, or is for another node.
        UnclearRecord: it names slices that are not known.
    """
    check_node(annotations(pod), node)
    field = f"metadata.annotations[{NVIDIA_ALLOCATED}]"
    lists = read_device_lists(field, annotations(pod).get(NVIDIA_ALLOCATED, ""))
    check_slices(annotations(pod), (each.name for devices in lists for each in devices), node)
    containers = tuple(pod_containers(pod))
    main = [one for one in containers if one.phase is Phase.MAIN]
    owners = list_owners(lists, containers, requesting, main)
    return tuple(
        listed_grant(field, listed, owner, node, MIB)
        for owner, devices in zip(owners, lists, strict=True)
        for listed in devices
    )


def read_koordinator(pod: Pod, node: Node, requesting: Sequence[PodContainer]) -> tuple[Grant, ...]:
    """Return grants by Koordinator's record.

    They name no container, unless only one requests cards: then they are this one's.

    Args:
        pod: the pod; it has the record.
        node: where it runs.
        requesting: its containers that request cards.

    Raises:
        DialectError: the record cannot be parsed.
    """
    name, phase = ("", Phase.MAIN)
    if len(requesting) == 1:
        name, phase = requesting[0].container.name, requesting[0].phase
    return tuple(
        Grant(name, e.uuid, e.memory, e.compute, FULL in (e.ratio, e.compute), phase)
        for e in read_allocated(annotations(pod), node)
    )
