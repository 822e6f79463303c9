"""A runtime that is only a socket, and a plugin that runs on it, for tests."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from adapters.agent.grants import LedgerGrants
from adapters.agent.hook.create_container import WaitBudget, Watchdog
from adapters.agent.hook.plugin import NriPlugin, Observer, ignore
from adapters.agent.hook.policy import Policy
from adapters.agent.hook.reporter import HookCounters
from adapters.agent.injection.adjustment import Equipment
from adapters.agent.injection.profiles import NVIDIA, VendorProfile
from adapters.agent.nri import ttrpc
from adapters.agent.nri.model import PLUGIN_SERVICE
from adapters.agent.nri.protobuf import message, text
from adapters.agent.tests.builders import equipment, ledger
from core.hardware.mig import Slice
from core.hardware.quantity import GIB
from core.requests.grant import Grant
from e2e.harness.processes.waiting import within

SLICE = Slice("1g.10gb", 2, 1, 10 * GIB, 14, "group1", 2)
PLAIN: VendorProfile = replace(NVIDIA, card_devices=(), devices=(), optional_devices=(), hami=None)
PATIENCE = 30.0
"""Seconds for what does not wait for a deadline, on a machine that is busy."""
RESULT = message(6, text(1, "volcano.sh/vgpu-ids-new") + text(2, "x"))


def pod_bytes(uid: str, more: bytes = b"") -> bytes:
    return text(1, "p1") + text(2, "train") + text(3, uid) + text(4, "ai") + more


def subject(uid: str, more: bytes = b"", *env: str) -> bytes:
    variables = b"".join(text(8, each) for each in env)
    return message(1, pod_bytes(uid, more)) + message(
        2, text(1, "c1") + text(3, "main") + variables
    )


@dataclass
class Runtime:
    """A runtime that makes one call after the other."""

    listener: socket.socket
    sock: socket.socket = field(init=False)
    _mux: ttrpc.Mux = field(init=False)
    _calls: ttrpc.MessageReader = field(init=False)
    _stream: int = 1

    def accept(self) -> None:
        self.listener.settimeout(PATIENCE)
        self.sock, _ = self.listener.accept()
        self.sock.settimeout(PATIENCE)
        self._mux, self._calls, self._stream = ttrpc.Mux(), ttrpc.MessageReader(), 1
        assert b"RegisterPlugin" in self.sock.recv(4096)

    def activate(self) -> None:
        self.accept()
        self.call("Configure", text(2, "containerd") + text(3, "2.1.9"))
        self.call("Synchronize")

    def send(self, method: str, payload: bytes = b"", timeout: float = PATIENCE) -> int:
        stream, self._stream = self._stream, self._stream + 2
        request = ttrpc.RpcRequest(PLUGIN_SERVICE, method, payload, int(timeout * 1e9))
        sent = ttrpc.RpcMessage(stream, ttrpc.REQUEST, ttrpc.encode_request(request))
        self.sock.sendall(ttrpc.frames(ttrpc.PLUGIN, ttrpc.encode(sent)))
        return stream

    def answer(self) -> tuple[int, ttrpc.RpcResponse]:
        while True:
            for frame in self._mux.feed(self.sock.recv(65536)):
                for found in self._calls.feed(frame.payload):
                    return found.stream, ttrpc.decode_response(found.data)

    def call(
        self, method: str, payload: bytes = b"", timeout: float = PATIENCE
    ) -> ttrpc.RpcResponse:
        stream = self.send(method, payload, timeout)
        found, response = self.answer()
        assert found == stream
        return response


@dataclass
class Setup:
    runtime: Runtime
    plugin: NriPlugin
    grants: LedgerGrants
    loop: asyncio.AbstractEventLoop

    @property
    def counters(self) -> HookCounters:
        return self.plugin.reporter.counters

    def waits(self) -> bool:
        """Whether a container waits for its grant."""
        return any("_wait_for_grant" in repr(task) for task in asyncio.all_tasks(self.loop))

    def allocate(self, uid: str) -> None:
        held = ledger(Grant("main", "GPU-1", GIB, 50), uid=uid)
        self.loop.call_soon_threadsafe(self.grants.replace, held)
        within(30, lambda: self.grants.ledger is held)


@contextmanager
def running(
    tmp_path: Path,
    there: Callable[[], Equipment] | None = None,
    *,
    watched: bool = True,
    observe: Observer = ignore,
    budget: WaitBudget | None = None,
) -> Iterator[Setup]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "nri.sock"))
    listener.listen()
    grants = LedgerGrants(ledger())
    policy = Policy(grants, there or (lambda: equipment(nvidia=PLAIN)))
    watchdog = Watchdog()
    if watched:
        watchdog.start()
    plugin = NriPlugin(
        tmp_path / "nri.sock",
        "dragoman",
        "50",
        policy,
        watchdog,
        observe=observe,
        budget=budget or WaitBudget(),
    )
    loop = asyncio.new_event_loop()

    def serve() -> None:
        task = loop.create_task(plugin.run())
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    at = Setup(Runtime(listener), plugin, grants, loop)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield at
    finally:
        at.runtime.sock.close()
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join(PATIENCE)
        if watched:
            watchdog.stop()
        loop.close()
        listener.close()
