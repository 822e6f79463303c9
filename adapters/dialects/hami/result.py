"""Reads the record of an allocation back: our own, and that of HAMi's scheduler."""

from collections.abc import Mapping, Sequence

from adapters.dialects.containers import pod_containers, requests_any
from adapters.dialects.dialect import NO_ALLOCATION, AdoptedAllocation, DialectError
from adapters.dialects.formats.annotation_values import annotation_path
from adapters.dialects.formats.hami_record import (
    NVIDIA_ALLOCATED,
    NVIDIA_KIND,
    HamiShare,
    check_node,
    decode_devices,
)
from adapters.dialects.formats.hami_result import (
    MigPlaces,
    check_slices,
    read_hami,
    read_mig_allocations,
)
from adapters.dialects.hami.keys import HamiConfig
from adapters.wire.kube import Pod, annotations
from core.hardware.card import Card, Mode
from core.hardware.mig import Slice
from core.hardware.node import Node
from core.requests.grant import Grant
from core.requests.request import ContainerRequest, Request

_FIELD = annotation_path(NVIDIA_ALLOCATED)


def read_result(pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
    """Read the grants of a pod, in start order of its containers.

    Args:
        pod: a pod that has a record.
        request: what it requests.
        node: the node that it runs on.

    Raises:
        DialectError: the record is for another node, or contradicts itself, the pod or the node.
        UnclearRecord: it names slices that are not known.
    """
    texts = annotations(pod)
    check_node(texts, node)
    text = texts[NVIDIA_ALLOCATED]
    lists = decode_devices(NVIDIA_KIND, _FIELD, text, several_slices=True)
    members = [member.container.name for member in pod_containers(pod)]
    if len(lists) != len(members):
        problem = f"covers {len(lists)} containers, the pod has {len(members)}"
        raise DialectError(_FIELD, text, problem)
    places = read_mig_allocations(texts)
    cards = {card.uuid: card for card in node.cards}
    wanted = {each.name: each for each in request.containers}
    grants: list[Grant] = []
    for index, (name, shares) in enumerate(zip(members, lists, strict=True)):
        count = wanted[name].count if name in wanted else 0
        if len(shares) != count:
            problem = f"has {len(shares)} cards for {name}, which requests {count}"
            raise DialectError(_FIELD, text, problem)
        if count:
            grants += _grants(wanted[name], index, shares, places, cards)
    parts = {(grant.container, grant.card, grant.slice) for grant in grants}
    if len(parts) < len(grants):
        raise DialectError(_FIELD, text, "names a card or a slice twice for one container")
    check_slices(texts, (grant.card for grant in grants), node)
    return tuple(grants)


def _grants(
    wanted: ContainerRequest,
    index: int,
    shares: Sequence[HamiShare],
    places: MigPlaces,
    cards: Mapping[str, Card],
) -> list[Grant]:
    grants: list[Grant] = []
    for position, share in enumerate(shares):
        card = cards.get(share.card)
        part = None
        if card is not None and card.mode is Mode.MIG:
            part = places.slice(index, position, card)
        alone = wanted.exclusive if card is None else wanted.exclusive_on(card)
        grants.append(_grant(wanted, share, part, alone=alone))
    return grants


def _grant(wanted: ContainerRequest, share: HamiShare, part: Slice | None, *, alone: bool) -> Grant:
    return Grant(
        container=wanted.name,
        card=share.card,
        memory=share.memory if part is None else part.memory,
        compute=share.compute if part is None else part.compute,
        exclusive=alone,
        phase=wanted.phase,
        slice=part,
    )


def read_adopted(pod: Pod, node: Node, config: HamiConfig) -> AdoptedAllocation | None:
    """Read the allocation of a pod; see ``Dialect``.

    HAMi allocates no card for a number of 0, and none for amounts without a number.

    Raises:
        DialectError: the record is for another node, or cannot be parsed.
    """
    requesting = [one for one in pod_containers(pod) if requests_any(one, (config.count,))]
    grants = read_hami(pod, node, requesting)
    if grants:
        return AdoptedAllocation(grants)
    return None if requesting else NO_ALLOCATION
