"""Bodies of requests, and pods of watches: decoded into the fields that are needed, or rejected.

A text of two characters can become an object of a hundred bytes: a body of 60 MB would need
gigabytes. So a pod is decoded only if its text could be one, and the items of a list are counted
while they are decoded.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import MarkedPod, Metadata, Pod, PodSpec, SchedulingGroup, UnreadPod, Wire

MOST_ITEMS = 200_000
"""Items of all lists of a request; the largest clusters have 5,000 nodes of 110 pods."""

LONGEST_POD = 8 << 20
"""Bytes of a pod's text. The API server stores at most 3 MiB, and Go may write a character as six.
Source: k8s.io/apiserver/pkg/server/config.go, MaxRequestBodyBytes."""

ABSENT = msgspec.Raw(b"null")
"""Stands in place of a part that is missing."""

T = TypeVar("T")

_POD = Decoder(Pod)


class BodyError(ValueError):
    """A body that cannot be used; the text says what is wrong with it."""


def read(body: bytes, decoder: Decoder[T]) -> T:
    """Return the value of a body.

    Raises:
        BodyError: it is no JSON in UTF-8, is cut off, or a field has the wrong type.
    """
    if not body:
        raise BodyError("the body is empty")
    try:
        return decoder.decode(body)
    except UnreadableError as error:
        raise BodyError(f"the body cannot be read: {error}") from error


class _Counter:
    """Items of the request that is decoded; one thread decodes requests."""

    def __init__(self) -> None:
        self.left = 0

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ValueError(f"more than {MOST_ITEMS} items")


_counter = _Counter()
_count: Callable[[], None] = _counter.count


class Item(Wire, frozen=True, gc=False):
    """The base of the items of a list: they are counted as they are decoded."""

    def __post_init__(self) -> None:
        """End the decoding where there are too many."""
        _count()


def read_lists(content: bytes, decoder: Decoder[T]) -> T:
    """Return the value of a body that has lists of ``Item``.

    Raises:
        BodyError: as ``read``, or there are more than ``MOST_ITEMS`` of them.
    """
    _counter.left = MOST_ITEMS
    return read(content, decoder)


def read_pod(text: msgspec.Raw, where: str) -> Pod | None:
    """Return the pod of a text; None where it is missing. ``where`` is its key, for the error.

    Raises:
        BodyError: it cannot be read, or is longer than ``LONGEST_POD``.
    """
    content = bytes(text)
    if content == b"null":
        return None
    if len(content) > LONGEST_POD:
        raise BodyError(f"{where} has {len(content)} bytes, a pod at most {LONGEST_POD}")
    try:
        return _POD.decode(content)
    except UnreadableError as error:
        raise BodyError(f"{where} cannot be read: {error}") from error


class PodDecoder:
    """Decodes pods as a watch sends them; those whose text has a mark as ``MarkedPod``.

    A usual pod has tens of variables, of which the service reads one name: to decode them all takes
    as long as the rest of the pod.
    """

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
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


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
    """Return a pod that cannot be decoded."""
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


def _part(decoder: Decoder[T], raw: msgspec.Raw) -> T | None:
    try:
        return decoder.decode(raw)
    except UnreadableError:
        return None
