"""Lists whole collections once, page by page."""

from collections.abc import Callable
from typing import TypeVar

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import GONE, NOT_FOUND, ClusterError, read
from adapters.cluster.watch.selection import Selection
from adapters.wire.api import Page
from adapters.wire.decode.decoder import Decoder
from adapters.wire.decode.partial_decoder import PartialDecoder

ObjectT = TypeVar("ObjectT")

PAGE = 500
"""Objects in a page; 500 pods are about 4 MiB."""

_ATTEMPTS = 3
_GROWTH = 4

_PAGE = PartialDecoder(Page)


async def list_all(
    client: KubeClient,
    selection: Selection,
    kind: type[ObjectT],
    *,
    page: int = PAGE,
    listed: Callable[[int], None] | None = None,
) -> list[ObjectT]:
    """Return all objects of a selection, in the server's order.

    A server keeps the snapshot of a list for about five minutes. When it is gone, the list begins
    again with larger pages.

    Args:
        client: the API server.
        selection: which objects; of an ``optional`` kind that the server does not know, none.
        kind: type that objects are decoded to.
        page: objects in a page, 1 or more.
        listed: called after each page with the number of objects so far.

    Raises:
        ClusterError: the server did not answer, rejects the request, or sends an object that
            cannot be decoded (``Garbage``).
    """
    decoder = PartialDecoder(kind)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await _list(client, selection, decoder, page, listed)
        except ClusterError as error:
            if error.status == NOT_FOUND and selection.optional:
                return []
            if error.status != GONE or attempt == _ATTEMPTS:
                raise
            page *= _GROWTH
    raise AssertionError("the last attempt returns or raises")


async def _list(
    client: KubeClient,
    selection: Selection,
    decoder: Decoder[ObjectT],
    page: int,
    listed: Callable[[int], None] | None,
) -> list[ObjectT]:
    found: list[ObjectT] = []
    token = ""
    while True:
        query = {**selection.query, "limit": str(page)}
        if token:
            query["continue"] = token
        answer = read(_PAGE, await client.get(selection.path, query))
        found += [read(decoder, item) for item in answer.items or ()]
        if listed is not None:
            listed(len(found))
        token = answer.metadata.token
        if not token:
            return found
