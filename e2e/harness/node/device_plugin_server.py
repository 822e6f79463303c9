"""A device plugin that allocates cards as NVIDIA's own does, on a machine that has none.

``python -m e2e.harness.node.device_plugin_server RESOURCE ID...`` where a kubelet's folder is. It
answers the list of cards in the variable of NVIDIA's runtime, by uuid, as that plugin does by
default; IDs of replicas are ``UUID::NUMBER``, as the plugin writes them for shared cards. It
imports no other module of the tests but the messages, so that a pod can run it.
Source: k8s.io/kubelet pkg/apis/deviceplugin/v1beta1/constants.go; NVIDIA k8s-device-plugin
internal/plugin/server.go, internal/rm/devices.go (AnnotatedID).
"""

import signal
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc

from e2e.harness.node.proto import device_plugin_pb2 as api

FOLDER = Path("/var/lib/kubelet/device-plugins")
REPLICA = "::"
"""Between the uuid of a shared card and the number of the replica."""
PATIENCE = 30.0
_VERSION, _SERVICE = "v1beta1", "v1beta1.DevicePlugin"


def main() -> None:
    """Serve until SIGTERM."""
    resource, *ids = sys.argv[1:]
    socket = FOLDER / f"stand-in-{resource.replace('/', '-')}.sock"
    socket.unlink(missing_ok=True)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())

    def listed(_: bytes, __: grpc.ServicerContext) -> Iterator[bytes]:
        devices = [api.Device(ID=each, health="Healthy") for each in ids]
        yield api.ListAndWatchResponse(devices=devices).SerializeToString()
        ended.wait()

    server = grpc.server(futures.ThreadPoolExecutor(4))
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda *_: b""),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(listed),
        "Allocate": grpc.unary_unary_rpc_method_handler(allocated),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, methods)])
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    with grpc.insecure_channel(f"unix://{FOLDER / 'kubelet.sock'}") as channel:
        path = f"/{_VERSION}.Registration/Register"
        register: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
        asked = api.RegisterRequest(version=_VERSION, endpoint=socket.name, resource_name=resource)
        register(asked.SerializeToString(), timeout=PATIENCE, wait_for_ready=True)
    print("registered", flush=True)
    ended.wait()
    server.stop(None)


def allocated(request: bytes, _: object = None) -> bytes:
    """What each container of a request gets: the cards that the kubelet has chosen, each once."""
    answers = [
        api.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": ",".join(cards)})
        for cards in (
            dict.fromkeys(each.partition(REPLICA)[0] for each in container.devices_ids)
            for container in api.AllocateRequest.FromString(request).container_requests
        )
    ]
    return api.AllocateResponse(container_responses=answers).SerializeToString()


if __name__ == "__main__":
    main()
