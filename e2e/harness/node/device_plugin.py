"""A device plugin that gives cards away as NVIDIA's own does, on a machine that has none.

``python -m e2e.harness.node.device_plugin RESOURCE UUID...`` in the machine of a kubelet. It
answers the list of cards in the variable of NVIDIA's runtime, by uuid, as that plugin does by
default.
Source: k8s.io/kubelet pkg/apis/deviceplugin/v1beta1/api.proto and constants.go; NVIDIA
k8s-device-plugin internal/plugin/server.go.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path

import grpc

from adapters.node.nri.protobuf import message, nested, text
from e2e.harness.node.machine import Machine
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
    """Serve until told to end."""
    resource, *uuids = sys.argv[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())

    def listed(_: bytes, __: grpc.ServicerContext) -> Iterator[bytes]:
        yield b"".join(message(1, text(1, uuid) + text(2, "Healthy")) for uuid in uuids)
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
        asked = text(1, _VERSION) + text(2, SOCKET.name) + text(3, resource)
        register(asked, timeout=_PATIENCE, wait_for_ready=True)
    print("registered", flush=True)
    ended.wait()
    server.stop(None)


def allocated(request: bytes, _: object = None) -> bytes:
    """What each container of a request gets: the cards that the kubelet has chosen."""
    answers: list[bytes] = []
    for _number, container in nested(request):
        uuids = ",".join(uuid.decode() for _field, uuid in nested(container))
        answers.append(message(1, message(1, text(1, "NVIDIA_VISIBLE_DEVICES") + text(2, uuids))))
    return b"".join(answers)


if __name__ == "__main__":
    main()
