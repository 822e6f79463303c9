"""The link against a runtime that is only a socket."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from adapters.node.grants import LedgerGrants
from adapters.node.hardware.model import Instance
from adapters.node.hook.adjustment import Equipment
from adapters.node.hook.deadline import Watchdog
from adapters.node.hook.plugin import NriPlugin
from adapters.node.hook.policy import Policy
from adapters.node.hook.profiles import NVIDIA, VendorProfile
from adapters.node.nri import messages, mux, ttrpc
from adapters.node.nri.model import PLUGIN_SERVICE, Adjustment
from adapters.node.nri.protobuf import integer, message, text
from adapters.node.tests.builders import equipment, ledger
from core.hardware.mig import MigKey, Slice
from core.hardware.quantity import GIB
from core.requests.grant import Grant

SLICE = Slice("1g.10gb", 2, 1, 10 * GIB, 14, "group1", 2)
PLAIN: VendorProfile = replace(NVIDIA, card_devices=(), devices=(), optional_devices=(), hami=None)
RESULT = message(6, text(1, "volcano.sh/vgpu-ids-new") + text(2, "x"))


def pod(uid: str, more: bytes = b"") -> bytes:
    return text(1, "p1") + text(2, "train") + text(3, uid) + text(4, "ai") + more


def subject(uid: str, more: bytes = b"") -> bytes:
    return message(1, pod(uid, more)) + message(2, text(1, "c1") + text(3, "main"))


@dataclass
class Runtime:
    """What a runtime does, one thing after the other."""

    listener: socket.socket
    sock: socket.socket = field(init=False)
    _mux: mux.Mux = field(init=False)
    _calls: ttrpc.MessageReader = field(init=False)
    _stream: int = 1

    def accept(self) -> None:
        self.listener.settimeout(5)
        self.sock, _ = self.listener.accept()
        self.sock.settimeout(5)
        self._mux, self._calls, self._stream = mux.Mux(), ttrpc.MessageReader(), 1
        assert b"RegisterPlugin" in self.sock.recv(4096)

    def activate(self) -> None:
        self.accept()
        self.call("Configure", text(2, "containerd") + text(3, "2.1.9"))
        self.call("Synchronize")

    def send(self, method: str, payload: bytes = b"", timeout: float = 2) -> int:
        stream, self._stream = self._stream, self._stream + 2
        request = ttrpc.RpcRequest(PLUGIN_SERVICE, method, payload, int(timeout * 1e9))
        sent = ttrpc.RpcMessage(stream, ttrpc.REQUEST, ttrpc.encode_request(request))
        self.sock.sendall(mux.frames(mux.PLUGIN, ttrpc.encode(sent)))
        return stream

    def answer(self) -> tuple[int, ttrpc.RpcResponse]:
        while True:
            for frame in self._mux.feed(self.sock.recv(65536)):
                for found in self._calls.feed(frame.payload):
                    return found.stream, ttrpc.decode_response(found.data)

    def call(self, method: str, payload: bytes = b"", timeout: float = 2) -> ttrpc.RpcResponse:
        stream = self.send(method, payload, timeout)
        found, response = self.answer()
        assert found == stream
        return response


@dataclass
class Stage:
    runtime: Runtime
    link: NriPlugin
    grants: LedgerGrants
    loop: asyncio.AbstractEventLoop

    def book(self, uid: str) -> None:
        held = ledger(Grant("main", "GPU-1", GIB, 50), uid=uid)
        self.loop.call_soon_threadsafe(self.grants.replace, held)
        soon(lambda: self.grants.ledger is held)


def soon(holds: Callable[[], bool]) -> None:
    """The link counts after it has answered."""
    deadline = time.monotonic() + 2
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def stage(tmp_path: Path, there: Callable[[], Equipment] | None = None) -> Iterator[Stage]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "nri.sock"))
    listener.listen()
    grants = LedgerGrants(ledger())
    agent = Policy(grants, there or (lambda: equipment(nvidia=PLAIN)))
    watchdog = Watchdog()
    watchdog.start()
    link = NriPlugin(tmp_path / "nri.sock", "dragoman", "50", agent, watchdog)
    loop = asyncio.new_event_loop()

    def serve() -> None:
        task = loop.create_task(link.run())
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    at = Stage(Runtime(listener), link, grants, loop)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield at
    finally:
        at.runtime.sock.close()
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join(5)
        watchdog.end()
        loop.close()
        listener.close()


def test_a_share_is_answered_at_once(tmp_path: Path) -> None:
    with stage(tmp_path) as at:
        at.runtime.activate()
        at.book("uid-1")

        response = at.runtime.call("CreateContainer", subject("uid-1"))

        assert b"GPU-1" in response.payload
        soon(lambda: at.link.news.counts.adjusted == 1)


def test_a_grant_that_arrives_in_time_is_given(tmp_path: Path) -> None:
    with stage(tmp_path) as at:
        at.runtime.activate()
        at.runtime.send("CreateContainer", subject("uid-2", RESULT))
        time.sleep(0.1)
        at.book("uid-2")

        _, response = at.runtime.answer()

        assert b"GPU-1" in response.payload


def test_a_slice_that_is_cut_in_time_is_given_and_one_that_is_not_is_refused(
    tmp_path: Path,
) -> None:
    held = ledger(Grant("main", "GPU-1", 10 * GIB, 14, slice=SLICE))
    there = {"now": changed(equipment(nvidia=PLAIN), partitions_here=True)}
    with stage(tmp_path, lambda: there["now"]) as at:
        at.runtime.activate()
        at.loop.call_soon_threadsafe(at.grants.replace, held)
        soon(lambda: at.grants.ledger is held)
        at.runtime.send("CreateContainer", subject("uid-1"), timeout=4)
        time.sleep(0.1)
        made = {MigKey("GPU-1", "1g.10gb", 2): Instance("MIG-7")}
        there["now"] = changed(there["now"], instances=made)
        at.loop.call_soon_threadsafe(at.grants.nudge)

        _, given = at.runtime.answer()
        there["now"] = changed(there["now"], instances={})
        refused = at.runtime.call("CreateContainer", subject("uid-1"), timeout=0.4)

        assert b"MIG-7" in given.payload
        assert refused.code == ttrpc.DEADLINE_EXCEEDED
        assert "its slice of the card is not made yet" in refused.message


def test_a_grant_that_does_not_arrive_is_an_error_in_time_and_is_waited_for_once(
    tmp_path: Path,
) -> None:
    with stage(tmp_path) as at:
        at.runtime.activate()
        began = time.monotonic()

        first = at.runtime.call("CreateContainer", subject("uid-3", RESULT), timeout=0.4)
        took = time.monotonic() - began
        second = at.runtime.call("CreateContainer", subject("uid-3", RESULT), timeout=0.4)
        again = time.monotonic() - began - took

        assert first.code == ttrpc.DEADLINE_EXCEEDED
        assert "does not name its pod yet" in first.message
        assert 0.2 < took < 0.4
        assert second.code != 0
        assert again < 0.15
        soon(lambda: (at.link.news.counts.refused, at.link.news.counts.late) == (2, 1))


def test_an_event_loop_that_hangs_is_answered_for_by_the_watchdog(tmp_path: Path) -> None:
    def slow() -> Equipment:
        time.sleep(0.6)
        return equipment(nvidia=PLAIN)

    with stage(tmp_path, slow) as at:
        at.runtime.activate()
        at.book("uid-1")
        began = time.monotonic()

        response = at.runtime.call("CreateContainer", subject("uid-1"), timeout=0.4)
        took = time.monotonic() - began
        # The late answer must not follow: the next thing on the line is the next call's.
        other = at.runtime.call("StartContainer", subject("uid-1"))

        assert response.code == ttrpc.DEADLINE_EXCEEDED
        assert took < 0.4
        assert other == ttrpc.RpcResponse()


def test_an_unexpected_failure_keeps_back_only_who_may_have_a_share(tmp_path: Path) -> None:
    def broken() -> Equipment:
        raise RuntimeError("boom")

    with stage(tmp_path, broken) as at:
        at.runtime.activate()
        at.book("uid-1")

        granted = at.runtime.call("CreateContainer", subject("uid-1"))
        other = at.runtime.call("CreateContainer", subject("somebody"))
        later = at.runtime.call("StartContainer", subject("somebody"))

        assert granted.code != 0
        assert "boom" in granted.message
        assert other == ttrpc.RpcResponse()
        assert later == ttrpc.RpcResponse()


def test_a_lost_runtime_is_found_again(tmp_path: Path) -> None:
    with stage(tmp_path) as at:
        for _ in range(3):
            at.runtime.activate()
            at.runtime.sock.close()
        at.runtime.activate()

        assert at.runtime.call("CreateContainer", subject("x")) == ttrpc.RpcResponse(
            messages.created(Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"}))
        )


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 16, mux.frames(1, b"\xff" * 16), b"GET / HTTP/1.1\r\n\r\n"]
)
def test_wrong_bytes_end_the_connection_and_not_the_agent(tmp_path: Path, garbage: bytes) -> None:
    with stage(tmp_path) as at:
        at.runtime.activate()
        at.runtime.sock.sendall(garbage)
        assert at.runtime.sock.recv(100) == b""
        at.runtime.sock.close()

        at.runtime.activate()

        assert at.runtime.call("StartContainer") == ttrpc.RpcResponse()


def test_a_runtime_that_refuses_the_plugin_is_asked_again(tmp_path: Path) -> None:
    with stage(tmp_path) as at:
        at.runtime.accept()
        data = ttrpc.encode_response(ttrpc.RpcResponse(code=2, message="invalid index"))
        sent = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, data))
        at.runtime.sock.sendall(mux.frames(mux.RUNTIME, sent))
        assert at.runtime.sock.recv(100) == b""
        at.runtime.sock.close()

        at.runtime.activate()

        soon(lambda: at.link.news.counts.connections == 1)


def test_who_runs_unserved_is_told_when_the_record_has_come_and_until_he_is_gone(
    tmp_path: Path,
) -> None:
    with stage(tmp_path) as at:
        at.link.agent.grants = at.grants = LedgerGrants()
        told: list[tuple[str, str]] = []
        at.link.news.emit = lambda pod, *words: told.append((pod.uid, words[0]))
        at.runtime.accept()
        at.runtime.call("Configure", text(2, "containerd") + text(3, "2.1.9"))
        running = text(1, "c1") + text(2, "p1") + text(3, "main") + integer(4, 3)
        at.runtime.call("Synchronize", message(1, pod("uid-1")) + message(2, running))
        counts = at.link.news.counts
        soon(lambda: counts.active)

        before = counts.unserved
        at.book("uid-1")
        soon(lambda: counts.unserved == 1 and bool(told))
        at.runtime.call("RemoveContainer", subject("uid-1"))

        assert before == 0
        assert told == [("uid-1", "ShareMissing")]
        soon(lambda: counts.unserved == 0)


def test_a_refusal_is_told_of_its_pod(tmp_path: Path) -> None:
    with stage(tmp_path) as at:
        told: list[tuple[str, ...]] = []
        at.link.news.emit = lambda pod, *words: told.append((pod.uid, *words))
        at.runtime.activate()

        at.runtime.call("CreateContainer", subject("uid-4", RESULT), timeout=0.1)

        soon(lambda: len(told) == 1)
        assert told[0][:2] == ("uid-4", "ShareRefused")
        assert "container main: the ledger does not name" in told[0][2]


def test_a_container_with_the_runtimes_socket_is_told(tmp_path: Path) -> None:
    with stage(tmp_path) as at:
        at.runtime.activate()
        mount = message(9, text(1, "/x") + text(3, "/run/containerd/containerd.sock"))
        asked = message(1, pod("uid-5")) + message(2, text(1, "c1") + text(3, "main") + mount)

        at.runtime.call("CreateContainer", asked)

        soon(lambda: at.link.news.counts.exposed == 1)


def test_the_watchdog_acts_in_order_and_forgets_what_is_called_off() -> None:
    watchdog = Watchdog()
    watchdog.start()
    done: list[str] = []
    now = time.monotonic()

    late = watchdog.at(now + 0.15, lambda: done.append("late"))
    watchdog.at(now + 0.05, lambda: done.append("early"))
    off = watchdog.at(now + 0.01, lambda: done.append("off"))
    watchdog.call_off(off)
    watchdog.call_off(off)
    time.sleep(0.3)
    watchdog.call_off(late)
    watchdog.end()

    assert done == ["early", "late"]
