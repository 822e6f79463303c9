"""Pods as a watch sends them, with the names of their variables where admission marked a container.

A usual pod has tens of variables, of which the service reads one name: to decode them all takes as
long as the rest of the pod. Only the text of a pod that has the mark is decoded with them.
"""

from typing import TypeVar

import msgspec

from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import (
    Container,
    Metadata,
    Pod,
    PodSpec,
    SchedulingGroup,
    Text,
    UnreadPod,
    Wire,
)

KindT = TypeVar("KindT")


class EnvVar(Wire, frozen=True, gc=False):
    """A variable of a container; no value is read."""

    name: str = ""


class MarkedContainer(Container, frozen=True, gc=False):
    """A container with its variables."""

    env: tuple[EnvVar, ...] | None = None


class MarkedSpec(PodSpec, frozen=True, gc=False):
    """The spec of a pod whose containers have their variables."""

    containers: tuple[MarkedContainer, ...] = ()
    init_containers: tuple[MarkedContainer, ...] | None = None


class MarkedPod(Pod, frozen=True, gc=False):
    """A pod whose containers have their variables."""

    spec: MarkedSpec = MarkedSpec()


class PodDecoder:
    """Decodes pods; those whose text has a mark as ``MarkedPod``."""

    def __init__(self, mark: str) -> None:
        """Decode by a mark: the name of a variable that JSON does not escape."""
        self._mark = mark.encode()
        self._plain = PartialDecoder(Pod)
        self._marked = PartialDecoder(MarkedPod)

    def decode(self, raw: msgspec.Raw) -> Pod:
        """Return the pod.

        Raises:
            UnreadableError: it is no pod.
        """
        return (self._marked if self._mark in bytes(raw) else self._plain).decode(raw)


class _Bound(Wire, frozen=True, gc=False):
    node_name: str | None = None


class _BoundPod(Wire, frozen=True, gc=False):
    spec: _Bound = _Bound()


class _Texts(Wire, frozen=True, gc=False):
    labels: Text | None = None
    annotations: Text | None = None


class _MarkedByTexts(Wire, frozen=True, gc=False):
    metadata: _Texts = _Texts()


class _Grouped(Wire, frozen=True, gc=False):
    scheduling_group: SchedulingGroup | None = None


class _GroupedPod(Wire, frozen=True, gc=False):
    spec: _Grouped = _Grouped()


_BOUND = PartialDecoder(_BoundPod)
_TEXTS = PartialDecoder(_MarkedByTexts)
_GROUPED = PartialDecoder(_GroupedPod)


def unread_pod(metadata: Metadata, raw: msgspec.Raw, problem: str) -> UnreadPod:
    """Return a pod that cannot be decoded.

    Args:
        metadata: its identity.
        raw: the object.
        problem: why it cannot be decoded.
    """
    bound, texts, grouped = _part(_BOUND, raw), _part(_TEXTS, raw), _part(_GROUPED, raw)
    spec = PodSpec(
        node_name=None if bound is None else bound.spec.node_name,
        scheduling_group=None if grouped is None else grouped.spec.scheduling_group,
    )
    if texts is not None:
        metadata = msgspec.structs.replace(
            metadata, labels=texts.metadata.labels, annotations=texts.metadata.annotations
        )
    return UnreadPod(metadata, spec, problem=problem, node_known=bound is not None)


def _part(decoder: Decoder[KindT], raw: msgspec.Raw) -> KindT | None:
    try:
        return decoder.decode(raw)
    except UnreadableError:
        return None


def has_variable(container: Container, name: str) -> bool:
    """Return whether a container has a variable; False where they were not decoded."""
    variables = container.env if isinstance(container, MarkedContainer) else None
    return any(variable.name == name for variable in variables or ())
