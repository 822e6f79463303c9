"""Bodies of requests: decoded into the fields that are needed, or rejected with a sentence.

A text of two characters can become an object of a hundred bytes: a body of 60 MB would need
gigabytes. So a pod is decoded only if its text could be one, and the items of a list are counted
while they are decoded.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Pod, Wire

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
    """Return the pod of a text; None where it is missing.

    Args:
        text: JSON.
        where: its key, for the error.

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
