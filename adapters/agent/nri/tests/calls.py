"""Calls of a runtime and the plugin's answers, for the tests of the session."""

from adapters.agent.nri import ttrpc
from adapters.agent.nri.model import PLUGIN_SERVICE
from adapters.agent.nri.protobuf import message, text
from adapters.agent.nri.session import Session

POD = text(1, "p1") + text(2, "train") + text(3, "uid-1") + text(4, "ai")
CONTAINER = text(1, "c1") + text(2, "p1") + text(3, "main") + text(8, "A=1")
SUBJECT = message(1, POD) + message(2, CONTAINER)


def call(stream: int, method: str, payload: bytes = b"", service: str = PLUGIN_SERVICE) -> bytes:
    request = ttrpc.encode_request(ttrpc.RpcRequest(service, method, payload, 2_000_000_000))
    return ttrpc.frames(
        ttrpc.PLUGIN, ttrpc.encode(ttrpc.RpcMessage(stream, ttrpc.REQUEST, request))
    )


def answers(sent: bytes) -> list[tuple[int, ttrpc.RpcResponse]]:
    reader = ttrpc.MessageReader()
    found = [m for frame in ttrpc.Mux().feed(sent) for m in reader.feed(frame.payload)]
    return [(m.stream, ttrpc.decode_response(m.data)) for m in found]


def active() -> Session:
    session = Session("dragoman", "20")
    session.register()
    session.feed(call(1, "Configure", text(2, "containerd") + text(3, "2.1.9")))
    session.feed(call(3, "Synchronize"))
    return session
