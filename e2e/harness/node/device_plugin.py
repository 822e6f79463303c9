"""A device plugin that allocates cards as NVIDIA's own does, on a machine that has none.

``python -m e2e.harness.node.device_plugin RESOURCE UUID...`` in the machine of a kubelet. It
answers the list of cards in the variable of NVIDIA's runtime, by uuid, as that plugin does by
default.
Source: k8s.io/kubelet pkg/apis/deviceplugin/v1beta1/constants.go; NVIDIA k8s-device-plugin
internal/plugin/server.go.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path

import grpc

from e2e.harness.node.machine import Machine
from e2e.harness.node.proto import device_plugin_pb2 as api
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY

FOLDER = Path("/var/lib/kubelet/device-plugins")
SOCKET = FOLDER / "stand-in.sock"
_VERSION, _SERVICE, _PATIENCE = "v1beta1", "v1beta1.DevicePlugin", 30.0


def start_device_plugin(machine: Machine, resource: str, uuids: Sequence[str]) -> Process:
    """Start it and wait until the kubelet knows it.

    Raises:
        StartError: it ends before.
    """
    words = [sys.executable, "-P", "-m", "e2e.harness.node.device_plugin", resource, *uuids]
    log = machine.run.folder / "device-plugin.log"
    return machine.run.start(
        "device-plugin",
        machine.command(words),
        ready=lambda: log.exists() and "registered" in log.read_text(),
        patience=_PATIENCE,
        environment={"PYTHONPATH": str(REPOSITORY)},
    )


def main() -> None:
    """Serve until SIGTERM."""
    resource, *uuids = sys.argv[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())

    def listed(_: bytes, __: grpc.ServicerContext) -> Iterator[bytes]:
        devices = [api.Device(ID=uuid, health="Healthy") for uuid in uuids]
        yield api.ListAndWatchResponse(devices=devices).SerializeToString()
        ended.wait()

    server = grpc.server(futures.ThreadPoolExecutor(4))
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda *_: b""),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(listed),
        "Allocate": grpc.unary_unary_rpc_method_handler(allocated),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, methods)])
    server.add_insecure_port(f"unix://{SOCKET}")
    server.start()
    with grpc.insecure_channel(f"unix://{FOLDER / 'kubelet.sock'}") as channel:
        path = f"/{_VERSION}.Registration/Register"
        register: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
        asked = api.RegisterRequest(version=_VERSION, endpoint=SOCKET.name, resource_name=resource)
        register(asked.SerializeToString(), timeout=_PATIENCE, wait_for_ready=True)
    print("registered", flush=True)
    ended.wait()
    server.stop(None)


def allocated(request: bytes, _: object = None) -> bytes:
    """What each container of a request gets: the cards that the kubelet has chosen."""
    answers = [
        api.ContainerAllocateResponse(
            envs={"NVIDIA_VISIBLE_DEVICES": ",".join(container.devices_ids)}
        )
        for container in api.AllocateRequest.FromString(request).container_requests
    ]
    return api.AllocateResponse(container_responses=answers).SerializeToString()


if __name__ == "__main__":
    main()
