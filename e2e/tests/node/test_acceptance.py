"""Problems that users of other systems report, by number, on a node."""

import os
import signal
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from core.hardware.quantity import MIB
from core.requests.grant import Allocation
from e2e.harness.node.agent import RunningAgent
from e2e.harness.node.cri import CriError
from e2e.harness.node.runtime_node import RuntimeNode
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.waiting import within
from e2e.tests.node.builders import a_grant, a_ledger, an_allocation

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real containerd needs root")

ADMITTED = {"NVIDIA_VISIBLE_DEVICES": "void", "DRAGOMAN_SHARE": "1"}
"""What admission writes into a container that asks for a share."""

IMAGE = {"NVIDIA_VISIBLE_DEVICES": "all"}
"""What images of CUDA say, here said by the container's author."""

RESULT = {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,81920,100:"}
KOORDINATED = {"scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0}]}'}
PODS = 60


def holding(name: str, memory: int, compute: int, card: str = "GPU-0", **more: Any) -> Allocation:
    grant = a_grant(card, memory * MIB, compute)
    return an_allocation(grant, uid=f"uid-{name}", pod=f"ai/{name}", **more)


def test_case_1_two_pods_in_reverse_order_and_after_a_stall_get_each_its_own_limits(
    place: RuntimeNode,
) -> None:
    agent = place.agent()
    first = place.cri.sandbox("first", "uid-first", RESULT)
    second = place.cri.sandbox("second", "uid-second", RESULT)

    # The record is held back: both are refused, as often as the kubelet asks.
    for attempt in range(2):
        for sandbox in (second, first):
            with pytest.raises(CriError, match="no allocation is recorded"):
                place.cri.create(sandbox, "main", ADMITTED, attempt)
    refused = len(agent.events("container.rejected"))
    place.host.write_ledger(a_ledger(holding("first", 3000, 50), holding("second", 6000, 25)))
    env = place.cri.env(place.retried(second, ADMITTED))
    other = place.cri.env(place.retried(first, ADMITTED))

    assert refused == 4
    assert (env["CUDA_DEVICE_MEMORY_LIMIT_0"], env["CUDA_DEVICE_SM_LIMIT_0"]) == ("6000m", "25")
    assert (other["CUDA_DEVICE_MEMORY_LIMIT_0"], other["CUDA_DEVICE_SM_LIMIT_0"]) == (
        "3000m",
        "50",
    )
    assert env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] != other["CUDA_DEVICE_MEMORY_SHARED_CACHE"]


def test_case_5_an_unknown_card_is_given_to_no_container_and_is_reported(
    place: RuntimeNode,
) -> None:
    place.host.write_ledger(
        a_ledger(holding("lost", 3000, 50, "GPU-9"), holding("sound", 3000, 50))
    )
    lost = place.cri.sandbox("lost", "uid-lost", RESULT)
    place.cri.run(lost, "main", ADMITTED)

    agent = place.agent()

    logged = agent.wait_for("container.share_missing")
    assert logged["pod"] == "ai/lost"
    assert "GPU-9 is not on this node" in logged["reason"]
    with pytest.raises(CriError, match="GPU-9 is not on this node"):
        place.cri.create(lost, "main", ADMITTED, 1)
    sound = place.cri.sandbox("sound", "uid-sound", RESULT)
    assert place.cri.env(place.cri.run(sound, "main"))["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


def test_case_12_a_hand_written_result_is_refused_and_flagged(place: RuntimeNode) -> None:
    blocked = frozenset({"GPU-0", "GPU-1"})
    adopted = an_allocation(uid="uid-adopted", pod="ai/adopted", unread="forged", blocked=blocked)
    place.host.write_ledger(a_ledger(adopted))
    # It starts while no agent runs, under a scheduler of its own.
    early = place.cri.sandbox("early", "uid-early", RESULT)
    place.cri.run(early, "main", IMAGE)

    agent = place.agent()

    flagged = agent.wait_for("container.share_missing")
    assert flagged["pod"] == "ai/early"
    assert "no allocation is recorded" in flagged["reason"]
    assert agent.wait_for("container.bypass_found")["reason"] == "NVIDIA_VISIBLE_DEVICES=all"
    forged = place.cri.sandbox("forged", "uid-forged", RESULT | KOORDINATED)
    with pytest.raises(CriError, match="no allocation is recorded"):
        place.cri.create(forged, "main", IMAGE)
    # The ledger has adopted it, holds every card for it, and grants it none.
    sandbox = place.cri.sandbox("adopted", "uid-adopted", RESULT)
    container = place.cri.run(sandbox, "main", IMAGE)
    assert place.cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "void"
    with pytest.raises(CriError, match="does not know which cards this pod uses"):
        place.cri.create(sandbox, "asking", ADMITTED)


def test_case_13_an_image_that_says_all_sees_none_and_a_privileged_pod_is_detected(
    place: RuntimeNode,
) -> None:
    cards = place.host.folder / "cards.yaml"
    card = "  - {{uuid: GPU-{0}, index: {0}, vendor: nvidia, model: A, memoryMiB: 81920, {1}}}\n"
    devices = ("/dev/full", "/dev/random")
    cards.write_text(
        "cards:\n" + "".join(card.format(i, f"devices: [{each}]") for i, each in enumerate(devices))
    )
    (port,) = free_ports(1)
    place.host.write_ledger(a_ledger(holding("train", 3000, 50)))
    agent = place.agent(
        inventory={"source": "file", "file": str(cards)}, monitor={"listen": f"127.0.0.1:{port}"}
    )

    plain = place.cri.run(place.cri.sandbox("plain", "uid-plain"), "main", IMAGE)
    # A pod with Docker inside is privileged, or has the runtime's own socket.
    inside = place.cri.sandbox("inside", "uid-inside", privileged=True)
    place.cri.create(inside, "docker", privileged=True)
    socket = str(place.runtime.socket.parent / "containerd.sock")
    beside = place.cri.sandbox("beside", "uid-beside")
    (place.runtime.socket.parent / "containerd.sock").touch()
    place.cri.create(beside, "docker", mounts={"/docker.sock": socket})
    # Its own card's node is no exposure, the other one's is.
    train = place.cri.sandbox("train", "uid-train", RESULT, privileged=True)
    place.cri.create(train, "main", ADMITTED, privileged=True)

    assert place.cri.env(plain)["NVIDIA_VISIBLE_DEVICES"] == "void"
    agent.wait_for("container.bypass_found", 3)
    found = {each["pod"]: each["reason"] for each in agent.events("container.bypass_found")}
    assert found == {
        "ai/inside": "device nodes of other cards (2)",
        "ai/beside": socket,
        "ai/train": "device nodes of other cards (1)",
    }
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert "dragoman_node_containers_exposed 3" in answer.read().decode().splitlines()


def test_case_14_a_hook_that_restarts_while_pods_start_leaves_no_naked_container_unnoticed(
    place: RuntimeNode,
) -> None:
    held = [holding(f"p{i}", 1000, 1, f"GPU-{i % 2}") for i in range(PODS)]
    place.host.write_ledger(a_ledger(*held, slots=PODS))
    agent = place.agent()
    numbers, enough = count(), threading.Event()
    made: dict[str, str] = {}

    def start() -> None:
        while not enough.is_set() and (number := next(numbers)) < PODS:
            sandbox = place.cri.sandbox(f"p{number}", f"uid-p{number}", RESULT)
            made[f"uid-p{number}"] = place.cri.run(sandbox, "main", ADMITTED)

    def another() -> None:
        before = len(made)
        within(30, lambda: len(made) > before)

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(start) for _ in range(2)]
        for _ in range(2):
            another()
            stop(place, agent)
            another()
            agent = place.agent()
        enough.set()
    for worker in workers:
        worker.result()
    seen = {uid: place.cri.env(each)["NVIDIA_VISIBLE_DEVICES"] for uid, each in made.items()}
    audit = place.agent(plugin={"name": "auditor", "index": "52"})
    unserved = {each["uid"] for each in audit.events("container.share_missing")}

    assert {uid for uid, cards in seen.items() if cards == "void"} == unserved
    assert {cards for cards in seen.values() if cards != "void"} <= {"GPU-0", "GPU-1"}
    stop(place, audit)
    registrations = len(agent.events("nri.active"))
    place.runtime.stop()
    agent.wait_for("nri.disconnected")
    place.runtime.restart()
    place.cri.wait()
    agent.wait_for("nri.active", registrations + 1, 20)
    sandbox = place.cri.sandbox("p0", "uid-p0", RESULT, space="again")
    # A second registration would set each variable twice, which the runtime refuses.
    env = place.cri.env(place.cri.run(sandbox, "main", ADMITTED))
    assert env["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    assert len(agent.events("nri.active")) == registrations + 1


def stop(place: RuntimeNode, agent: RunningAgent) -> None:
    """End an agent, as a rolling update does."""
    agent.process.identity.signal_group(signal.SIGTERM)
    agent.process.popen.wait(30)
    place.run.processes.remove(agent.process)
