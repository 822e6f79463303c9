"""NRI's messages, between bytes and values.

Source: containerd/nri pkg/api/api.proto; the field numbers are the same from 0.6 to 0.12.
"""

from functools import lru_cache

from adapters.agent.nri.model import (
    Adjustment,
    LinuxDevice,
    Mount,
    NriContainer,
    PodSandbox,
    RuntimeInfo,
)
from adapters.agent.nri.protobuf import (
    fields,
    integer,
    key,
    latest,
    message,
    nested,
    signed,
    string,
    strings,
    text,
)

_CACHED = 256
"""Entries of the caches of encoded and decoded mounts and devices; containers share most."""


def encode_register(name: str, index: str) -> bytes:
    """Encode a RegisterPluginRequest."""
    return text(1, name) + text(2, index)


def decode_configure(data: bytes) -> RuntimeInfo:
    """Read the runtime in a ConfigureRequest."""
    texts, numbers = latest(data)
    timeout = max(signed(numbers.get(5, 0)), 0)
    return RuntimeInfo(string(texts.get(2, b"")), string(texts.get(3, b"")), timeout)


def encode_configure_response(events: int) -> bytes:
    """Encode a ConfigureResponse."""
    return integer(2, events)


def decode_synchronize(data: bytes) -> tuple[list[PodSandbox], list[NriContainer], bool]:
    """Read the pods and containers of a SynchronizeRequest, and whether more requests follow."""
    pods: list[PodSandbox] = []
    containers: list[NriContainer] = []
    more = False
    for number, value in fields(data):
        match number, value:
            case 1, bytes():
                pods.append(_pod(value))
            case 2, bytes():
                containers.append(_container(value))
            case 3, int():
                more = value != 0
            case _:
                pass
    return pods, containers, more


def encode_synchronize_response(*, more: bool) -> bytes:
    """Encode a SynchronizeResponse without updates."""
    return integer(2, int(more))


def decode_pod_and_container(data: bytes) -> tuple[PodSandbox, NriContainer]:
    """Pod and container of CreateContainerRequest, RemoveContainerRequest and similar ones."""
    texts, _ = latest(data)
    return _pod(texts.get(1, b"")), _container(texts.get(2, b""))


def decode_state_change(data: bytes) -> tuple[int, PodSandbox, NriContainer]:
    """Event, pod and container of StateChangeEvent."""
    texts, numbers = latest(data)
    return numbers.get(1, 0), _pod(texts.get(2, b"")), _container(texts.get(3, b""))


def encode_create_container_response(adjustment: Adjustment) -> bytes:
    """Encode a CreateContainerResponse."""
    body = devices = b""
    for mount in adjustment.mounts:
        body += message(3, _encode_mount(mount))
    for name, value in adjustment.env.items():
        body += message(4, text(1, name) + text(2, value))
    for device in adjustment.devices:
        devices += message(1, _encode_device(device))
    if devices:
        body += message(6, devices)
    for name in adjustment.cdi:
        body += message(8, text(1, name))
    return message(1, body) if body else b""


def _pod(data: bytes) -> PodSandbox:
    texts = {1: b"", 2: b"", 3: b"", 4: b""}
    annotations: list[bytes] = []
    for number, value in fields(data):
        if isinstance(value, int):
            continue
        if number == 6:
            annotations.append(value)
        elif number in texts:
            texts[number] = value
    own, name, uid, namespace = strings(texts.values())
    return PodSandbox(own, name, uid, namespace, frozenset(map(key, annotations)))


def _container(data: bytes) -> NriContainer:
    texts = {1: b"", 2: b"", 3: b""}
    state = 0
    env: list[bytes] = []
    mounts: list[Mount] = []
    devices: list[LinuxDevice] = []
    cdi: list[str] = []
    for number, value in fields(data):
        if isinstance(value, int):
            if number == 4:
                state = value
        elif number == 8:
            env.append(value)
        elif number == 9:
            mounts.append(_mount(value))
        elif number in texts:
            texts[number] = value
        elif number == 11:
            for inner, held in fields(value):
                if inner == 2 and isinstance(held, bytes):
                    devices.append(_device(held))
        elif number == 20:
            cdi.extend(string(name) for inner, name in nested(value) if inner == 1)
    own, pod, name = strings(texts.values())
    return NriContainer(
        own, pod, name, state, strings(env), tuple(mounts), tuple(devices), tuple(cdi)
    )


@lru_cache(_CACHED)
def _mount(data: bytes) -> Mount:
    texts = {1: "", 2: "", 3: ""}
    options: list[str] = []
    for number, value in nested(data):
        if number in texts:
            texts[number] = string(value)
        elif number == 4:
            options.append(string(value))
    return Mount(texts[1], texts[2], texts[3], tuple(options))


@lru_cache(_CACHED)
def _encode_mount(mount: Mount) -> bytes:
    return (
        text(1, mount.destination)
        + text(2, mount.type)
        + text(3, mount.source)
        + b"".join(message(4, option.encode()) for option in mount.options)
    )


@lru_cache(_CACHED)
def _device(data: bytes) -> LinuxDevice:
    texts, numbers = latest(data)
    path, kind = string(texts.get(1, b"")), string(texts.get(2, b""))
    mode = latest(texts[5])[1].get(1, 0) if 5 in texts else None
    return LinuxDevice(path, kind, signed(numbers.get(3, 0)), signed(numbers.get(4, 0)), mode)


@lru_cache(_CACHED)
def _encode_device(device: LinuxDevice) -> bytes:
    return (
        text(1, device.path)
        + text(2, device.type)
        + integer(3, device.major)
        + integer(4, device.minor)
        + (b"" if device.mode is None else message(5, integer(1, device.mode)))
    )
