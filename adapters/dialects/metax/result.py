"""Write and read what a pod was given.

Source: HAMi v2.10.0 pkg/scheduler/scheduler.go:1031-1052 and 1124-1139,
pkg/device/metax/{device,sdevice}.go.
"""

from dataclasses import dataclass

from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import DialectError, Result
from adapters.dialects.hami_record import (
    METAX_ALLOCATED,
    NODE_KEY,
    ContainerShares,
    HamiShare,
    check_node,
    decode_devices,
    decode_metax,
    encode_devices,
    encode_metax,
)
from adapters.dialects.metax import keys
from adapters.dialects.metax.annotations import annotation_path
from adapters.wire.kube import Pod, Text, annotations
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.requests.grant import Grant, Placement
from core.requests.request import ContainerRequest, Request

MAX_LABEL_LENGTH = 63
"""Characters of a label's value, as Kubernetes allows them."""

SECOND = 10**9


@dataclass(frozen=True, slots=True)
class _Record:
    kind: str
    to_allocate: str
    allocated: str


_SHARES = _Record(keys.SGPU_KIND, keys.SGPU_TO_ALLOCATE, keys.SGPU_ALLOCATED)
_CARDS = _Record(keys.GPU_KIND, keys.GPU_TO_ALLOCATE, keys.GPU_ALLOCATED)


def _record(request: Request) -> _Record:
    return _CARDS if Mode.WHOLE in request.modes else _SHARES


def write_result(pod: Pod, request: Request, placement: Placement, now: int) -> Result:
    """The record of a placement.

    Args:
        pod: the pod.
        request: what was read from it.
        placement: what it gets.
        now: nanoseconds since 1970.
    """
    record = _record(request)
    containers = [
        [grant for grant in placement.grants if grant.container == member.container.name]
        for member in pod_containers(pod)
    ]
    devices = encode_devices(record.kind, containers)
    seconds = str(now // SECOND)
    written = {
        NODE_KEY: placement.node,
        keys.TIME: seconds,
        record.to_allocate: devices,
        record.allocated: devices,
        keys.BIND_PHASE: keys.ALLOCATING,
        keys.BIND_TIME: seconds,
    }
    if record is _SHARES:
        written[METAX_ALLOCATED] = encode_metax(containers)
        written[keys.PREDICATE_TIME] = str(now)
    fits = len(placement.node) <= MAX_LABEL_LENGTH
    return Result(written, {NODE_KEY: placement.node} if fits else {})


def has_result(pod: Pod) -> bool:
    """Whether a pod carries a record."""
    return (
        not annotations(pod)
        .keys()
        .isdisjoint({keys.SGPU_ALLOCATED, keys.GPU_ALLOCATED, METAX_ALLOCATED})
    )


def read_result(pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
    """What a pod was given, in start order of its containers.

    Raises:
        DialectError: the record is for another node, contradicts itself or the pod, or does not
            say which cards are meant.
    """
    said = annotations(pod)
    record = _record(request)
    check_node(said, node)
    if record is _CARDS and any(_counted_as_shares(card) for card in node.cards):
        problem = "does not say which of the node's cards are meant"
        raise DialectError(annotation_path(record.allocated), said.get(record.allocated), problem)
    containers = _decode(said, record)
    found = [member.container.name for member in pod_containers(pod)]
    if len(containers) != len(found):
        problem = f"tells of {len(containers)} containers, the pod has {len(found)}"
        raise DialectError(annotation_path(record.allocated), said.get(record.allocated), problem)
    told = dict(zip(found, containers, strict=True))
    asked = {ask.container: ask for ask in request.containers}
    for name, shares in told.items():
        count = asked[name].count if name in asked else 0
        if len(shares) != count:
            problem = f"gives {name} {len(shares)} cards, it asks for {count}"
            raise DialectError(
                annotation_path(record.allocated), said.get(record.allocated), problem
            )
    return tuple(_grant(ask, share) for ask in request.containers for share in told[ask.container])


def _counted_as_shares(card: Card) -> bool:
    return keys.NAME in card.dialects and card.mode is not Mode.WHOLE


def _decode(said: Text, record: _Record) -> ContainerShares:
    field = annotation_path(record.allocated)
    text = said.get(record.allocated)
    told = None if text is None else decode_devices(record.kind, field, text)
    if record is _SHARES and METAX_ALLOCATED in said:
        also = decode_metax(said[METAX_ALLOCATED])
        if told not in (None, also):
            problem = f"differs from {record.allocated}"
            raise DialectError(annotation_path(METAX_ALLOCATED), said[METAX_ALLOCATED], problem)
        told = also
    if told is None:
        raise DialectError(field, text, "must say which cards the pod has")
    return told


def _grant(ask: ContainerRequest, share: HamiShare) -> Grant:
    return Grant(ask.container, share.card, share.memory, share.compute, ask.exclusive, ask.phase)
