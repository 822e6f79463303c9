"""What others have of the devices of a node, as claims that schedulers count.

Schedulers of Dynamic Resource Allocation add up the claims of the cluster and know nothing of pods
of other dialects, of another driver's claims for the same card, or of cards that a container of a
deleted pod may still use. A shadow claim is an allocated claim of no pod with exactly these parts.
It is advice: the ledger decides.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import ceil

from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import NAME_FIELD, SHADOW, Claim
from adapters.dialects.dra.consumption import share_id
from adapters.dialects.dra.devices import MEMORY, SHARERS, DeviceKey, PublishedDevice
from adapters.dialects.dra.holders import COMPUTE
from core.hardware.card import Card
from core.hardware.quantity import FULL
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardShare, CardUsage, first_conflict
from core.requests.request import ANY_TERMS

_LEAST = CardShare(
    uid="",
    memory=1,
    compute=0,
    slots=1,
    exclusive=False,
    blocked=False,
    by_kubelet=False,
    terms=ANY_TERMS,
    slices=(),
    unreadable_slices=True,
)
"""The least that a claim could have of a card: where even that conflicts, it can have nothing."""


@dataclass(frozen=True, slots=True)
class ShadowDevice:
    """A device of which others have a part.

    Attributes:
        consumed: amounts by the name of the capacity as it is published; None for all of it.
    """

    key: DeviceKey
    consumed: Mapping[str, int] | None = None


def shadows(
    ledger: NodeLedger, devices: Iterable[PublishedDevice], claims: Mapping[str, Claim]
) -> tuple[ShadowDevice, ...]:
    """Return the devices of which schedulers would allocate what they cannot have, by their keys.

    Args:
        ledger: of a node, as it is stored.
        devices: of the node.
        claims: by uid, the allocated claims of the cluster, which schedulers count themselves.
    """
    known = frozenset(
        uid
        for uid, each in ledger.allocations.items()
        if each.dialect == DRA and uid not in claims and each.release_by is None
    )
    has = {
        uid: frozenset((each.driver, each.pool, each.device) for each in claims[uid].results)
        for uid in claims.keys() & ledger.allocations.keys()
    }
    usages = {
        card.uuid: (card, use) for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    }
    found: list[ShadowDevice] = []
    ordered = sorted(devices, key=lambda each: (each.card, each.is_counted, each.key))
    groups = groupby(ordered, lambda each: (each.card, each.is_counted, each.driver, each.pool))
    for (uuid, is_counted, _, _), group in groups:
        if uuid not in usages:
            continue
        card, use = usages[uuid]
        members = list(group)
        if is_counted:
            others = use.minus(*known, *_with_any(has, {each.key for each in members}))
            found += _of_counters(card, others, members) if others.shares else ()
            continue
        for each in members:
            others = use.minus(*known, *_with_any(has, {each.key}))
            if not others.shares:
                continue
            if not each.profile:
                found.append(_of_whole(card, others, each))
            elif _is_overlapped(card, others, each):
                found.append(ShadowDevice(each.key))
    return tuple(sorted(found, key=lambda each: each.key))


def _with_any(
    has: Mapping[str, Collection[DeviceKey]], keys: Collection[DeviceKey]
) -> frozenset[str]:
    """Return the claims that have one of these devices."""
    return frozenset(uid for uid, devices in has.items() if not set(devices).isdisjoint(keys))


def _of_whole(card: Card, others: CardUsage, device: PublishedDevice) -> ShadowDevice:
    """Return the device that is the card: a part of it, or all where a claim cannot have a part."""
    amounts = device.amounts
    if (
        not device.is_shared
        or MEMORY not in amounts
        or first_conflict(card, others, _LEAST) is not None
    ):
        return ShadowDevice(device.key)
    compute = others.compute + max(FULL - card.compute, 0)
    consumed = {
        MEMORY: others.memory + max(amounts[MEMORY] - card.memory, Fraction(0)),
        COMPUTE: compute * amounts.get(COMPUTE, Fraction(0)) / FULL,
        SHARERS: others.slots + max(amounts.get(SHARERS, Fraction(0)) - card.slots, Fraction(0)),
    }
    return ShadowDevice(
        device.key,
        {
            published: max(ceil(min(amount, amounts[name])), 0)
            for name, amount in consumed.items()
            for published in device.capacities.get(name, ())
        },
    )


def _of_counters(
    card: Card, others: CardUsage, devices: Collection[PublishedDevice]
) -> Iterator[ShadowDevice]:
    """Yield what others have of devices that exclude each other by counters.

    Schedulers know by the counters what a slice excludes. Only the slice itself is allocated: a
    larger one that overlaps it would count memory slices that are free.
    """
    wholes = [each for each in devices if not each.profile]
    parts = [each for each in devices if each.profile]
    taken: set[DeviceKey] = set()
    is_in_parts = True
    for held in others.slices():
        exact = [
            each
            for each in parts
            if (each.profile.lower(), each.start) == (held.profile.lower(), held.start)
        ]
        found = exact or [each for each in parts if _is_overlapped(card, others, each)]
        taken |= {each.key for each in found}
        is_in_parts = is_in_parts and bool(found)
    is_in_parts = is_in_parts and not _may_be_all(others)
    if not is_in_parts and not wholes:
        taken = {each.key for each in parts}
    yield from map(ShadowDevice, sorted(taken))
    if not is_in_parts:
        yield from (_of_whole(card, others, each) for each in wholes)


def _may_be_all(others: CardUsage) -> bool:
    return any(each.exclusive or each.blocked or each.unreadable_slices for each in others.shares)


def _is_overlapped(card: Card, others: CardUsage, device: PublishedDevice) -> bool:
    """Return whether others have a part of a MIG device, also where nothing says which."""
    size = next(
        (
            slot.size
            for layout in card.geometry.layouts
            for slot in layout.slices
            if slot.profile.lower() == device.profile.lower()
        ),
        None,
    )
    if size is None or device.start is None or _may_be_all(others):
        return True
    return any(
        held.start < device.start + size and device.start < held.start + held.size
        for held in others.slices()
    )


NODE = "dragoman.dev/node"
"""The annotation of a shadow claim with the name of its node."""

LONGEST_NODE = 200
"""Characters of a node's name in the name of a claim, which can have 253."""

_REQUEST = "others"
_CLASS = "shadow.dragoman.dev"


@dataclass(frozen=True, slots=True)
class ShadowClaim:
    """A claim of one device; equal claims have equal names.

    Attributes:
        manifest: without a status.
    """

    name: str
    manifest: dict[str, object]
    status: dict[str, object]


def shadow_claim(namespace: str, node: str, device: ShadowDevice) -> ShadowClaim:
    """Return the claim of a device of a node.

    Each device has its own: a scheduler takes all devices of a claim that is deleted out of those
    that are in use, also one that another claim has. Source: kubernetes v1.37.1
    plugins/dynamicresources/allocateddevices.go, removeDevices.
    """
    driver, pool, name = device.key
    row = [node, driver, pool, name, device.consumed]
    digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
    claim = f"{node[:LONGEST_NODE].rstrip('.-')}-{digest[:16]}"
    metadata = {
        "name": claim,
        "namespace": namespace,
        "labels": {SHADOW: "true", "app.kubernetes.io/managed-by": "dragoman"},
        "annotations": {NODE: node},
    }
    request = {"name": _REQUEST, "exactly": {"deviceClassName": _CLASS}}
    result: dict[str, object] = {
        "request": _REQUEST,
        "driver": driver,
        "pool": pool,
        "device": name,
    }
    if device.consumed is not None:
        result["shareID"] = share_id(digest)
        result["consumedCapacity"] = {key: str(each) for key, each in device.consumed.items()}
    term = {
        "matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}],
        "matchExpressions": [{"key": SHADOW, "operator": "Exists"}],
    }
    return ShadowClaim(
        claim,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": {"devices": {"requests": [request]}},
        },
        {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [term]},
            }
        },
    )
