"""Reads claims and pods from the API server."""

import asyncio
from dataclasses import dataclass
from typing import Protocol, TypeVar
from urllib.parse import quote

from adapters.agent.apiserver.api import send
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.dra import ResourceClaim
from adapters.wire.dra_pod import ClaimingPod

TIMEOUT = 10.0
"""Seconds for one request; the kubelet waits 45 for all claims of a pod."""

_T = TypeVar("_T")


class ClaimSource(Protocol):
    """Where claims and pods are read."""

    async def claim(self, namespace: str, name: str) -> ResourceClaim:
        """A claim.

        Raises:
            OSError: it does not exist, or the server did not answer.
        """
        ...

    async def pod(self, namespace: str, name: str) -> ClaimingPod:
        """A pod.

        Raises:
            OSError: it does not exist, or the server did not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClaimServer:
    """The API server.

    Attributes:
        credentials: of the driver.
    """

    credentials: AgentCredentials

    async def claim(self, namespace: str, name: str) -> ResourceClaim:
        """Implements ``ClaimSource.claim``."""
        folder = f"/apis/resource.k8s.io/v1/namespaces/{_quoted(namespace)}/resourceclaims"
        return await self._get(f"{folder}/{_quoted(name)}", ResourceClaim)

    async def pod(self, namespace: str, name: str) -> ClaimingPod:
        """Implements ``ClaimSource.pod``."""
        return await self._get(
            f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(name)}", ClaimingPod
        )

    async def _get(self, path: str, kind: type[_T]) -> _T:
        try:
            async with asyncio.timeout(TIMEOUT):
                return Decoder(kind).decode(await send(self.credentials, "GET", path, b""))
        except UnreadableError as error:
            raise OSError(f"{path}: {error}") from error


def _quoted(part: str) -> str:
    return quote(part, safe="")
