"""The plugin against a runtime that is only a socket."""

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from adapters.agent.grants import GrantAnswer, LedgerGrants
from adapters.agent.hardware.model import Instance
from adapters.agent.hook.create_container import GRANT_WAIT, WATCHDOG_WAIT
from adapters.agent.hook.tests.runtime import (
    PLAIN,
    RESULT,
    SLICE,
    pod_bytes,
    running,
    subject,
)
from adapters.agent.injection.adjustment import Equipment
from adapters.agent.nri import messages, ttrpc
from adapters.agent.nri.model import Adjustment
from adapters.agent.nri.protobuf import integer, message, text
from adapters.agent.tests.builders import equipment, ledger
from core.hardware.mig import MigKey
from core.hardware.quantity import GIB
from core.requests.grant import Grant
from e2e.harness.processes.waiting import within


def test_a_container_with_a_grant_gets_its_share(tmp_path: Path) -> None:
    with running(tmp_path) as at:
        at.runtime.activate()
        at.allocate("uid-1")

        response = at.runtime.call("CreateContainer", subject("uid-1"))

        assert b"GPU-1" in response.payload
        within(30, lambda: at.counters.adjusted == 1)


def test_a_grant_that_arrives_in_time_is_used(tmp_path: Path) -> None:
    with running(tmp_path) as at:
        at.runtime.activate()
        at.runtime.send("CreateContainer", subject("uid-2", RESULT), timeout=60)
        within(30, at.waits)
        at.allocate("uid-2")

        _, response = at.runtime.answer()

        assert b"GPU-1" in response.payload


def test_a_slice_that_is_created_in_time_is_used_and_a_later_one_is_rejected(
    tmp_path: Path,
) -> None:
    held = ledger(Grant("main", "GPU-1", 10 * GIB, 14, slice=SLICE))
    there = {"now": changed(equipment(nvidia=PLAIN), creates_instances=True)}
    with running(tmp_path, lambda: there["now"], watched=False) as at:
        at.runtime.activate()
        at.loop.call_soon_threadsafe(at.grants.replace, held)
        within(30, lambda: at.grants.ledger is held)
        at.runtime.send("CreateContainer", subject("uid-1"), timeout=60)
        within(30, at.waits)
        made = {MigKey("GPU-1", "1g.10gb", 2): Instance("MIG-7")}
        there["now"] = changed(there["now"], instances=made)
        at.loop.call_soon_threadsafe(at.grants.wake)

        _, given = at.runtime.answer()
        there["now"] = changed(there["now"], instances={})
        refused = at.runtime.call("CreateContainer", subject("uid-1"), timeout=0.4)

        assert b"MIG-7" in given.payload
        assert refused.code == ttrpc.DEADLINE_EXCEEDED
        assert "its MIG slice is not created yet" in refused.message


def test_the_agent_waits_for_a_grant_once_per_pod_and_shorter_than_the_watchdog(
    tmp_path: Path,
) -> None:
    with running(tmp_path, watched=False) as at:
        at.runtime.activate()

        first = at.runtime.call("CreateContainer", subject("uid-3", RESULT), timeout=0.4)
        second = at.runtime.call("CreateContainer", subject("uid-3", RESULT), timeout=600)

        # The code of a rejection after a wait, and the one of a rejection without.
        assert first.code == ttrpc.DEADLINE_EXCEEDED
        assert second.code == ttrpc.UNKNOWN
        for response in (first, second):
            assert "no allocation is recorded for this pod yet" in response.message
        assert 0 < GRANT_WAIT < WATCHDOG_WAIT < 1
        within(30, lambda: (at.counters.rejected, at.counters.late) == (2, 1))


def test_the_watchdog_answers_while_the_reading_thread_is_blocked(tmp_path: Path) -> None:
    released = threading.Event()

    def blocked() -> Equipment:
        assert released.wait(30)
        return equipment(nvidia=PLAIN)

    with running(tmp_path, blocked) as at:
        at.runtime.activate()
        at.allocate("uid-1")

        response = at.runtime.call("CreateContainer", subject("uid-1"), timeout=0.1)
        released.set()
        # The late answer must not follow: the next message is the answer to the next call.
        other = at.runtime.call("StartContainer", subject("uid-1"))

        assert response.code == ttrpc.DEADLINE_EXCEEDED
        assert "no answer in time" in response.message
        assert other == ttrpc.RpcResponse()


def test_an_unexpected_failure_rejects_only_a_container_that_may_have_a_share(
    tmp_path: Path,
) -> None:
    def broken() -> Equipment:
        raise RuntimeError("boom")

    with running(tmp_path, broken) as at:
        at.runtime.activate()
        at.allocate("uid-1")

        granted = at.runtime.call("CreateContainer", subject("uid-1"))
        other = at.runtime.call("CreateContainer", subject("other"))
        later = at.runtime.call("StartContainer", subject("other"))

        assert granted.code != 0
        assert "boom" in granted.message
        assert other == ttrpc.RpcResponse()
        assert later == ttrpc.RpcResponse()


def test_an_unexpected_failure_of_the_ledger_rejects_every_container(tmp_path: Path) -> None:
    class BrokenGrants(LedgerGrants):
        def lookup(self, pod: str, container: str) -> GrantAnswer:
            raise RuntimeError(f"boom: {pod}/{container}")

    with running(tmp_path) as at:
        at.plugin.policy.grants = BrokenGrants()
        at.runtime.activate()

        first = at.runtime.call("CreateContainer", subject("uid-1"))
        second = at.runtime.call("CreateContainer", subject("other"))

        assert first.message == "dragoman: RuntimeError: boom: uid-1/main"
        assert "boom: other/main" in second.message


def test_the_plugin_reconnects_to_a_runtime_that_disconnects(tmp_path: Path) -> None:
    with running(tmp_path) as at:
        for _ in range(3):
            at.runtime.activate()
            at.runtime.sock.close()
        at.runtime.activate()

        assert at.runtime.call("CreateContainer", subject("x")) == ttrpc.RpcResponse(
            messages.encode_create_container_response(
                Adjustment({"NVIDIA_VISIBLE_DEVICES": "void"})
            )
        )


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 16, ttrpc.frames(1, b"\xff" * 16), b"GET / HTTP/1.1\r\n\r\n"]
)
def test_wrong_bytes_end_the_connection_and_not_the_agent(tmp_path: Path, garbage: bytes) -> None:
    with running(tmp_path) as at:
        at.runtime.activate()
        at.runtime.sock.sendall(garbage)
        assert at.runtime.sock.recv(100) == b""
        at.runtime.sock.close()

        at.runtime.activate()

        assert at.runtime.call("StartContainer") == ttrpc.RpcResponse()


def test_the_plugin_registers_again_after_a_rejection(tmp_path: Path) -> None:
    with running(tmp_path) as at:
        at.runtime.accept()
        data = ttrpc.encode_response(ttrpc.RpcResponse(code=2, message="invalid index"))
        sent = ttrpc.encode(ttrpc.RpcMessage(1, ttrpc.RESPONSE, data))
        at.runtime.sock.sendall(ttrpc.frames(ttrpc.RUNTIME, sent))
        assert at.runtime.sock.recv(100) == b""
        at.runtime.sock.close()

        at.runtime.activate()

        within(30, lambda: at.counters.connections == 1)


def test_a_missing_share_is_reported_once_the_ledger_is_known_and_counted_until_removal(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as at:
        at.plugin.policy.grants = at.grants = LedgerGrants()
        reported: list[tuple[str, str]] = []
        at.plugin.reporter.emit = lambda pod, *words: reported.append((pod.uid, words[0]))
        at.runtime.accept()
        at.runtime.call("Configure", text(2, "containerd") + text(3, "2.1.9"))
        container = text(1, "c1") + text(2, "p1") + text(3, "main") + integer(4, 3)
        at.runtime.call("Synchronize", message(1, pod_bytes("uid-1")) + message(2, container))
        counts = at.counters
        within(30, lambda: counts.active)

        before = counts.without_share
        at.allocate("uid-1")
        within(30, lambda: counts.without_share == 1 and bool(reported))
        at.runtime.call("RemoveContainer", subject("uid-1"))

        assert before == 0
        assert reported == [("uid-1", "ShareMissing")]
        within(30, lambda: counts.without_share == 0)


def test_a_rejection_is_reported_on_its_pod(tmp_path: Path) -> None:
    with running(tmp_path, watched=False) as at:
        reported: list[tuple[str, ...]] = []
        at.plugin.reporter.emit = lambda pod, *words: reported.append((pod.uid, *words))
        at.runtime.activate()

        at.runtime.call("CreateContainer", subject("uid-4", RESULT), timeout=0.1)

        within(30, lambda: len(reported) == 1)
        assert reported[0][:2] == ("uid-4", "ShareRefused")
        assert "container main: no allocation is recorded" in reported[0][2]


def test_a_container_with_the_runtimes_socket_is_counted(tmp_path: Path) -> None:
    with running(tmp_path) as at:
        at.runtime.activate()
        mount = message(9, text(1, "/x") + text(3, "/run/containerd/containerd.sock"))
        asked = message(1, pod_bytes("uid-5")) + message(2, text(1, "c1") + text(3, "main") + mount)

        at.runtime.call("CreateContainer", asked)

        within(30, lambda: at.counters.with_bypass == 1)
