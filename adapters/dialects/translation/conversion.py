"""Which ResourceClaims a pod of a dialect can have in place of its resources, exactly.

Admission removes the resources and names claims; they are created afterwards, from the record that
admission leaves on the pod. A record is never trusted: it holds what the pod stated, which is read
and converted again, so that no author gets a claim by it that a pod of the dialect would not get.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from adapters.dialects import registry
from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.dra.claim_requests import read_request
from adapters.dialects.dra.claim_specs import claim_specs, lost_peak
from adapters.dialects.matching import dialect_of
from adapters.dialects.request_writer import (
    CardFacts,
    Loss,
    losses,
    removed,
    unread_amounts,
)
from adapters.wire.decode import decoder
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.dra import ClaimSpec
from adapters.wire.kube import Amount, Container, Pod, Resources, Wire, annotations, labels
from core.requests.request import PluginShare

KEY = "dragoman.dev/converted"
"""Annotation of a converted pod; only admission may write it."""

Json = dict[str, Any]


class StatedContainer(Wire, frozen=True, gc=False, omit_defaults=True):
    """What a container stated before its conversion, and the name of the claim that it got."""

    claim: str
    limits: dict[str, Amount] | None = None
    requests: dict[str, Amount] | None = None


class Stated(Wire, frozen=True, gc=False, omit_defaults=True):
    """What a pod stated before its conversion."""

    containers: dict[str, StatedContainer]
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


_STATED = Decoder(Stated)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The claims that request exactly what a pod requests.

    Attributes:
        dialect: of the pod.
        specs: the spec of each claim, by the name of its container.
        resources: names of containers' resources that the claims replace.
        texts: annotations and labels that are a part of the request.
    """

    dialect: str
    specs: Mapping[str, Json]
    resources: frozenset[str]
    texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Inexact:
    """Why a pod cannot be converted.

    Attributes:
        losses: what its claims would not keep, as sentences.
    """

    losses: tuple[str, ...]


def convert(pod: Pod, dialects: Sequence[Dialect]) -> Conversion | Inexact | None:
    """The claims of a pod; None where it requests no share.

    Raises:
        DialectError: the request is invalid.
    """
    dialect = dialect_of(pod, dialects)
    if dialect is None:
        return None
    request = registry.with_vendor(dialect.read_request(pod))
    if request.plugin is PluginShare.DEVICE:
        return Inexact(("devices that the kubelet chooses have no claims",))
    info = registry.named(dialect.name)
    writer = info.load_writer() if info is not None else None
    if info is None or writer is None:
        return Inexact((f"pods of {dialect.name} have no claims",))
    bare = _without(pod, writer.resources)
    if any(each.matches(bare) for each in dialects):
        return Inexact(("resources that a setting renames: use their default names",))
    try:
        names = (container.name for container in request.containers)
        specs = dict(zip(names, claim_specs(request, None), strict=True))
    except DialectError as error:
        return Inexact((f"{error.field}: {error.value}: a claim counts bytes; request bytes",))
    claims = {name: decoder.convert(spec, ClaimSpec) for name, spec in specs.items()}
    after = registry.with_vendor(read_request(bare, claims))
    lost: list[Loss] = [*losses(request, after, CardFacts()), *lost_peak(request)]
    lost += unread_amounts(pod, writer)
    gone = info.texts(writer)
    lost += removed(pod, gone, dialect, request, after)
    if lost:
        return Inexact(tuple(f"{each.field}: {each.before}, then {each.after}" for each in lost))
    return Conversion(dialect.name, specs, writer.resources, gone)


def stated(pod: Pod, conversion: Conversion, claims: Mapping[str, str]) -> str:
    """The record of a conversion.

    Args:
        pod: before it.
        conversion: what the pod is converted to.
        claims: the name of the claim of each container that gets one.
    """
    record = Stated(
        {
            member.container.name: StatedContainer(
                claims[member.container.name],
                _of(member.container.resources.limits, conversion.resources),
                _of(member.container.resources.requests, conversion.resources),
            )
            for member in pod_containers(pod)
            if member.container.name in claims
        },
        _of(annotations(pod), conversion.texts),
        _of(labels(pod), conversion.texts),
    )
    return msgspec.json.encode(record).decode()


def is_converted(pod: Pod) -> bool:
    """Whether a pod has a record of a conversion, genuine or forged."""
    return KEY in annotations(pod)


def converted(pod: Pod, dialects: Sequence[Dialect]) -> Mapping[str, tuple[str, Json]]:
    """The claims of a converted pod: name and spec, by the name of the container.

    Args:
        pod: one that ``is_converted``; only its record and the names of its containers are read.
        dialects: all dialects.

    Raises:
        DialectError: the record is not one that admission writes.
    """
    text = annotations(pod)[KEY]
    try:
        record = _STATED.decode(text)
    except UnreadableError as error:
        raise _forged(text, str(error)) from None
    try:
        conversion = convert(_restored(pod, record), dialects)
    except DialectError as error:
        raise _forged(text, str(error)) from None
    if (
        not isinstance(conversion, Conversion)
        or conversion.specs.keys() != record.containers.keys()
    ):
        raise _forged(text, "states no pod that can be converted")
    names = [each.claim for each in record.containers.values()]
    if "" in names or len(set(names)) < len(names):
        raise _forged(text, "names a claim twice")
    return {name: (record.containers[name].claim, spec) for name, spec in conversion.specs.items()}


def _forged(text: str, problem: str) -> DialectError:
    return DialectError(
        f"metadata.annotations[{KEY}]", text, f"is no record of admission: {problem}"
    )


def _restored(pod: Pod, record: Stated) -> Pod:
    """The pod as it was before its conversion."""

    def restore(container: Container) -> Container:
        own = record.containers.get(container.name)
        resources = Resources() if own is None else Resources(own.limits, own.requests)
        return msgspec.structs.replace(container, resources=resources)

    metadata = msgspec.structs.replace(
        pod.metadata, annotations=record.annotations, labels=record.labels
    )
    return msgspec.structs.replace(_changed(pod, restore), metadata=metadata)


def _without(pod: Pod, resources: frozenset[str]) -> Pod:
    def strip(container: Container) -> Container:
        limits, requests = container.resources.limits, container.resources.requests
        left = Resources(_rest(limits, resources), _rest(requests, resources))
        return msgspec.structs.replace(container, resources=left)

    return _changed(pod, strip)


def _changed(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    """The pod with each of its containers changed."""
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(change, pod.spec.containers)),
        init_containers=tuple(map(change, pod.spec.init_containers or ())),
    )
    return msgspec.structs.replace(pod, spec=spec)


def _rest(amounts: Mapping[str, Amount] | None, gone: frozenset[str]) -> dict[str, Amount]:
    return {key: value for key, value in (amounts or {}).items() if key not in gone}


def _of(entries: Mapping[str, Any] | None, keys: frozenset[str]) -> dict[str, Any] | None:
    return {key: value for key, value in (entries or {}).items() if key in keys} or None
