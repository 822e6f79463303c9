"""The few requests to the API server about this node's ResourceSlices."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from adapters.node.apiserver.api import MAX_ANSWER, ApiError, send, stream
from adapters.node.apiserver.credentials import AgentCredentials
from adapters.node_dra import DRIVER
from adapters.node_dra.devices import Json

COLLECTION = "/apis/resource.k8s.io/v1/resourceslices"

_WATCH_SECONDS = 290
_NOT_FOUND = 404


class UnsupportedClusterError(RuntimeError):
    """The cluster lacks something without which cards would be allocated twice."""


@dataclass(frozen=True, slots=True)
class SliceServer:
    """The API server, for one node.

    Attributes:
        credentials: of the driver.
        node: its name.
    """

    credentials: AgentCredentials
    node: str

    async def list(self) -> tuple[list[Json], str]:
        """The node's slices, and the version for a watch.

        Raises:
            OSError: the API server did not answer.
            UnsupportedClusterError: it does not know the API.
        """
        try:
            async with aclosing(self._lines("")) as lines:
                text = b"".join([line async for line in lines])
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            raise UnsupportedClusterError(
                "the API server does not serve resource.k8s.io/v1 ResourceSlices: dra.driver needs"
                " Kubernetes 1.36 or later"
            ) from error
        found = msgspec.json.decode(text)
        return list(found.get("items") or ()), found["metadata"]["resourceVersion"]

    async def changes(self, version: str) -> AsyncGenerator[tuple[str, Json], None]:
        """Type and object of each event until the server ends the watch; also bookmarks.

        Raises:
            OSError: the watch failed.
        """
        options = f"&watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}"
        async with aclosing(self._lines(f"{options}&resourceVersion={quote(version)}")) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] == "ERROR":
                    raise ApiError(f"the server ended the watch: {event['object']}")
                yield event["type"], event["object"]

    async def node_uid(self) -> str:
        """The uid of the node's object.

        Raises:
            OSError: the API server did not answer, or has no such node.
        """
        found = await self._send("GET", f"/api/v1/nodes/{quote(self.node, safe='')}")
        return str(found["metadata"]["uid"])

    async def create(self, item: Json) -> Json:
        """Create a slice; what the server stored.

        Raises:
            OSError: it was rejected.
        """
        return await self._send("POST", COLLECTION, item)

    async def replace(self, item: Json) -> Json:
        """Replace a slice of the version that the item states; what the server stored.

        Raises:
            OSError: it was rejected.
        """
        return await self._send("PUT", _path(item["metadata"]["name"]), item)

    async def delete(self, name: str) -> None:
        """Delete a slice, if it exists.

        Raises:
            OSError: the request was rejected.
        """
        try:
            await self._send("DELETE", _path(name))
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise

    async def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await send(self.credentials, method, path, data)
        return msgspec.json.decode(answer, type=dict[str, Any])

    async def _lines(self, options: str) -> AsyncGenerator[bytes, None]:
        """The lines of an answer, each as soon as it arrives."""
        selector = quote(f"spec.driver={DRIVER},spec.nodeName={self.node}", safe="")
        path = f"{COLLECTION}?fieldSelector={selector}{options}"
        rest = b""
        async with aclosing(stream(self.credentials, "GET", path)) as answer:
            async for part in answer:
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    if line:
                        yield line
                if len(rest) > MAX_ANSWER:
                    raise ApiError(f"a line of more than {MAX_ANSWER} bytes")
        if rest:
            yield rest


def _path(name: str) -> str:
    return f"{COLLECTION}/{quote(name, safe='')}"
