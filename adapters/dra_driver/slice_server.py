"""The few requests to the API server about this node's ResourceSlices."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from adapters.agent.apiserver.api import ApiError, lines, send
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.dialects.dra import DRIVER
from adapters.dra_driver.devices import Json
from adapters.wire.decode.decoder import Decoder

COLLECTION = "/apis/resource.k8s.io/v1/resourceslices"

_WATCH_SECONDS = 290
_NOT_FOUND = 404

_OBJECT = Decoder(dict[str, Any])


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
            async with aclosing(self._lines("")) as answer:
                text = b"".join([line async for line in answer])
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            raise UnsupportedClusterError(
                "the API server does not serve resource.k8s.io/v1 ResourceSlices: dra.driver needs"
                " Kubernetes 1.36 or later"
            ) from error
        found = _OBJECT.decode(text)
        return list(found.get("items") or ()), found["metadata"]["resourceVersion"]

    async def changes(self, version: str) -> AsyncGenerator[tuple[str, Json], None]:
        """Type and object of each event until the server ends the watch; also bookmarks.

        Raises:
            OSError: the watch failed.
        """
        options = f"&watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}"
        async with aclosing(self._lines(f"{options}&resourceVersion={quote(version)}")) as answer:
            async for line in answer:
                event = _OBJECT.decode(line)
                if event["type"] == "ERROR":
                    raise ApiError(
                        f"the API server ended the watch of the node's slices: {event['object']}"
                    )
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
        return _OBJECT.decode(answer)

    def _lines(self, options: str) -> AsyncGenerator[bytes, None]:
        selector = quote(f"spec.driver={DRIVER},spec.nodeName={self.node}", safe="")
        path = f"{COLLECTION}?fieldSelector={selector}{options}"
        return lines(self.credentials, path)


def _path(name: str) -> str:
    return f"{COLLECTION}/{quote(name, safe='')}"
