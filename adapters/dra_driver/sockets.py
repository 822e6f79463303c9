"""The driver's sockets in the kubelet's folders.

The kubelet watches ``plugins_registry`` for sockets, asks each what it is, and then calls the
endpoint that it names (k8s.io/kubernetes v1.37.1 pkg/kubelet/pluginmanager).
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc.aio

from adapters.agent.log import log_event
from adapters.dialects.dra import DRIVER
from adapters.dra_driver import health
from adapters.dra_driver.health import DeviceHealth, add_health
from adapters.dra_driver.plugin import VERSIONS, add_plugin
from adapters.dra_driver.preparation import Preparer
from adapters.dra_driver.proto import registration_pb2, registration_pb2_grpc

GRACE = 5.0
"""Seconds that calls may take to end when the driver stops."""


class PluginRegistration:
    """Says what is behind the other socket."""

    def __init__(self, endpoint: Path) -> None:
        """Name that socket, by its path on the host."""
        self._endpoint = endpoint

    async def GetInfo(  # noqa: N802  # the name of the call
        self, _request: object, _context: object
    ) -> registration_pb2.PluginInfo:
        """What the plugin is."""
        return registration_pb2.PluginInfo(
            type="DRAPlugin",
            name=DRIVER,
            endpoint=str(self._endpoint),
            supported_versions=(*VERSIONS, *health.VERSIONS),
        )

    async def NotifyRegistrationStatus(  # noqa: N802  # the name of the call
        self, request: Any, _context: object
    ) -> registration_pb2.RegistrationStatusResponse:
        """Log what became of it."""
        if request.plugin_registered:
            log_event("kubelet.registered")
        else:
            log_event("kubelet.not_registered", reason=request.error)
        return registration_pb2.RegistrationStatusResponse()


def plugin_socket(kubelet: Path) -> Path:
    """Where the kubelet calls the plugin."""
    return kubelet / "plugins" / DRIVER / "dra.sock"


def registration_socket(kubelet: Path) -> Path:
    """Where the kubelet finds it."""
    return kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"


@asynccontextmanager
async def serving(
    kubelet: Path, preparer: Preparer, devices: DeviceHealth
) -> AsyncGenerator[None, None]:
    """Serve the kubelet for the length of a block.

    Args:
        kubelet: its root folder, under the same path as on the host.
        preparer: prepares claims.
        devices: whose health is reported.

    Raises:
        OSError: a socket cannot be created.
    """
    service, registry = plugin_socket(kubelet), registration_socket(kubelet)
    plugin, hidden_service = _listen(service)
    add_plugin(plugin, preparer)
    add_health(plugin, devices)
    registration, hidden_registry = _listen(registry)
    add: Callable[..., None] = registration_pb2_grpc.add_RegistrationServicer_to_server
    add(PluginRegistration(service), registration)
    try:
        await plugin.start()
        await registration.start()
        inodes = {
            path: hidden.replace(path).lstat().st_ino
            for path, hidden in ((service, hidden_service), (registry, hidden_registry))
        }
        try:
            yield
        finally:
            for path in (registry, service):  # the kubelet then knows that the plugin is gone
                _unlink(path, inodes[path])
    finally:
        devices.close()  # the kubelet keeps its call open
        await registration.stop(GRACE)
        await plugin.stop(GRACE)


def _listen(socket: Path) -> tuple[grpc.aio.Server, Path]:
    """A server, and its socket until that takes the place of what an earlier process left.

    Under a name that the kubelet ignores (pkg/kubelet/pluginmanager/pluginwatcher), because gRPC
    removes the name that it has bound when it ends: by then it may be that of the next process.
    """
    socket.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    for each in socket.parent.glob(f".{socket.name}-*"):
        each.unlink(missing_ok=True)
    hidden = socket.with_name(f".{socket.name}-{uuid4().hex[:8]}")
    server = grpc.aio.server()
    try:
        server.add_insecure_port(f"unix:{hidden}")
    except RuntimeError as error:
        raise OSError(f"{socket}: {error}") from error
    return server, hidden


def _unlink(socket: Path, inode: int) -> None:
    """Remove a socket unless it is another process's by now."""
    with suppress(FileNotFoundError):
        if socket.lstat().st_ino == inode:
            socket.unlink()
