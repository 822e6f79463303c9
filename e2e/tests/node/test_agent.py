"""On a real containerd a container gets exactly what the ledger says, or it is not created."""

import json
import os
import signal
import socket
import stat
import struct
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from adapters.agent.metrics.hami_region import MAGIC, VERSION_1
from adapters.wire.records.ledger import encode
from core.hardware.quantity import GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant
from e2e.harness.node.agent import start_agent
from e2e.harness.node.cri import CriError
from e2e.harness.node.runtime_node import RuntimeNode
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.waiting import within
from e2e.tests.node.builders import a_grant, a_ledger, an_allocation
from e2e.tests.node.placed_guides import placed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real containerd needs root")

ENTRY = "from adapters.cli.main import main; main()"
RESULT = {"volcano.sh/vgpu-ids-new": "what stands here is not read"}


def ledger(*grants: Grant, uid: str = "uid-1", cards: int = 2) -> NodeLedger:
    return a_ledger(an_allocation(*grants, uid=uid), cards=cards)


def half(container: str = "main", index: int = 0) -> Grant:
    return a_grant(f"GPU-{index}", 3000 * MIB, container=container)


def test_the_volcano_guides_pod_gets_its_share(place: RuntimeNode) -> None:
    pods, ledgers = placed("volcano-hami-core.yaml")
    pod = pods["hami-pod"]
    place.host.write_ledger(ledgers[pod.node])
    place.agent()

    sandbox = place.cri.sandbox("hami-pod", pod.uid, pod.annotations)
    container = place.cri.run(sandbox, pod.containers[0], {"NVIDIA_VISIBLE_DEVICES": "void"})

    env = place.cri.env(container)
    assert env["NVIDIA_VISIBLE_DEVICES"].startswith("GPU-201080aa-")
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert env["CUDA_DEVICE_SM_LIMIT"] == env["CUDA_DEVICE_SM_LIMIT_0"] == "50"
    assert env["CUDA_DEVICE_MEMORY_SHARED_CACHE"].startswith(f"/tmp/vgpu/{pod.uid}_")
    mounts = place.cri.mounts(container)
    assert "ro" in mounts["/usr/local/vgpu/libvgpu.so"].split(",")
    assert "ro" in mounts["/etc/ld.so.preload"].split(",")
    assert {"/tmp/vgpu", "/tmp/vgpulock"} <= mounts.keys()
    assert place.cri.exec(container, ["/bin/cat", "/etc/ld.so.preload"]).strip() in mounts
    place.cri.exec(container, ["/bin/sh", "-c", "echo x >/tmp/vgpu/a; echo x >/tmp/vgpulock/lock"])
    index = next(
        each.index
        for each in ledgers[pod.node].node.cards
        if each.uuid == env["NVIDIA_VISIBLE_DEVICES"]
    )
    nodes = place.cri.exec(container, ["/bin/ls", f"{place.host.folder}/dev"]).split()
    assert nodes == [f"nvidia{index}", "nvidiactl"]
    # Opening it proves the rule of the device group: the kernel knows this device.
    place.cri.exec(container, ["/bin/sh", "-c", f"exec 3<{place.host.folder}/dev/nvidiactl"])


def test_the_koordinator_guides_pod_gets_its_share(place: RuntimeNode) -> None:
    pods, ledgers = placed("koordinator-gpu-share.yaml")
    pod = pods["pod-example"]
    place.host.write_ledger(ledgers[pod.node])
    place.agent()

    sandbox = place.cri.sandbox("pod-example", pod.uid, pod.annotations)
    container = place.cri.run(sandbox, pod.containers[0], {"NVIDIA_VISIBLE_DEVICES": "void"})

    (grant,) = ledgers[pod.node].allocations[pod.uid].grants
    env = place.cri.env(container)
    assert env["NVIDIA_VISIBLE_DEVICES"] == grant.card
    assert env["CUDA_DEVICE_MEMORY_LIMIT"] == str(grant.memory)
    assert env["CUDA_DEVICE_SM_LIMIT"] == str(grant.compute)


def test_the_mig_guides_pod_gets_its_slice(place: RuntimeNode) -> None:
    pods, ledgers = placed("volcano-mig.yaml")
    pod = pods["mig-pod"]
    held = ledgers[pod.node]
    (grant,) = held.allocations[pod.uid].grants
    assert grant.slice is not None
    place.host.write_ledger(held)
    cards = [{"uuid": c.uuid, "index": c.index, "mode": "mig"} for c in held.node.cards]
    for each in cards:
        if each["uuid"] == grant.card:
            slot = {"profile": grant.slice.profile, "start": grant.slice.start, "uuid": "MIG-1"}
            each["instances"] = [slot]
    file = place.host.folder / "cards.json"
    file.write_text(json.dumps({"cards": cards}))
    place.agent(inventory={"source": "file", "file": str(file)})

    sandbox = place.cri.sandbox("mig-pod", pod.uid, pod.annotations)
    container = place.cri.run(sandbox, pod.containers[0])

    env = place.cri.env(container)
    assert env["NVIDIA_VISIBLE_DEVICES"] == "MIG-1"
    assert not any(name.startswith("CUDA_DEVICE") for name in env)
    assert "/etc/ld.so.preload" not in place.cri.mounts(container)


def test_a_slice_that_is_not_cut_keeps_its_container_back(place: RuntimeNode) -> None:
    pods, ledgers = placed("volcano-mig.yaml")
    pod = pods["mig-pod"]
    place.host.write_ledger(ledgers[pod.node])
    place.agent()

    sandbox = place.cri.sandbox("mig-pod", pod.uid, pod.annotations)

    with pytest.raises(CriError, match=r"has no \S+ instance at"):
        place.cri.create(sandbox, pod.containers[0])


def test_the_metax_guides_pod_is_left_to_metax_and_sees_no_other_card(place: RuntimeNode) -> None:
    pods, ledgers = placed("metax-share.yaml")
    pod = pods["sample-pod"]
    place.host.write_ledger(ledgers[pod.node])
    place.agent()

    sandbox = place.cri.sandbox("sample-pod", pod.uid, pod.annotations)
    container = place.cri.run(sandbox, pod.containers[0])

    env = place.cri.env(container)
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert not any(name.startswith("CUDA_") for name in env)


def test_the_metax_guides_pod_gets_what_a_profile_says(place: RuntimeNode) -> None:
    pods, ledgers = placed("metax-share.yaml")
    pod = pods["sample-pod"]
    place.host.write_ledger(ledgers[pod.node])
    configuration = place.host.configuration(place.runtime)
    configuration["profiles"]["metax"] = {
        "served": True,
        "visible": "METAX_VISIBLE_DEVICES",
        "names": "{indexes}",
        "env": {"METAX_MEMORY_MIB": "{memories}", "METAX_COMPUTE": "{computes}"},
        "devices": [f"{place.host.folder}/dev/nvidiactl"],
    }
    start_agent(place.runtime, place.host, configuration)

    sandbox = place.cri.sandbox("sample-pod", pod.uid, pod.annotations)
    container = place.cri.run(sandbox, pod.containers[0])

    (grant,) = ledgers[pod.node].allocations[pod.uid].grants
    env = place.cri.env(container)
    assert env["METAX_VISIBLE_DEVICES"].isdigit()
    assert env["METAX_MEMORY_MIB"] == str(grant.memory // MIB)
    assert env["METAX_COMPUTE"] == str(grant.compute)
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_containers_of_one_pod_get_their_own_share_and_others_none(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half("first", 0), half("second", 1)))
    place.agent()
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    seen = {
        name: place.cri.env(place.cri.run(sandbox, name, {"NVIDIA_VISIBLE_DEVICES": "all"}))
        for name in ("first", "second", "third")
    }

    assert [env["NVIDIA_VISIBLE_DEVICES"] for env in seen.values()] == ["GPU-0", "GPU-1", "void"]
    assert "CUDA_DEVICE_MEMORY_LIMIT" not in seen["third"]


def test_annotations_of_a_pod_grant_nothing(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger())
    agent = place.agent()
    sandbox = place.cri.sandbox(
        "forged", "uid-forged", {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1,1"}
    )

    with pytest.raises(CriError, match="no allocation is recorded"):
        place.cri.create(sandbox, "main")

    assert agent.wait_for("container.rejected")["pod"] == "ai/forged"


def test_a_grant_that_comes_late_is_waited_for(place: RuntimeNode) -> None:
    place.agent()
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    with ThreadPoolExecutor() as pool:
        creating = pool.submit(place.cri.run, sandbox, "main")
        time.sleep(0.2)  # much shorter than the wait for a grant
        assert not creating.done()
        place.host.write_ledger(ledger(half()))
        container = creating.result(30)

    assert place.cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


def test_a_grant_that_never_comes_is_an_error_before_the_runtime_gives_up(
    place: RuntimeNode,
) -> None:
    agent = place.agent()
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    began = time.monotonic()
    with pytest.raises(CriError, match="no allocation is recorded"):
        place.cri.create(sandbox, "main")
    first = time.monotonic() - began
    with pytest.raises(CriError, match="no allocation is recorded"):
        place.cri.create(sandbox, "main", attempt=1)
    second = time.monotonic() - began - first

    # A runtime that had given up would have made the container. What is waited for is 1.3 s.
    assert 1.2 < first < 2
    assert second < 0.5
    assert len(agent.events("nri.active")) == 1
    place.host.write_ledger(ledger(half()))
    container = place.retried(sandbox)
    assert place.cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


def test_a_node_without_the_library_keeps_the_container_back(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    configuration = place.host.configuration(place.runtime)
    configuration["profiles"]["nvidia"]["hamiCore"]["library"] = "/nowhere/libvgpu.so"
    start_agent(place.runtime, place.host, configuration)
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    with pytest.raises(CriError, match=r"/nowhere/libvgpu\.so does not exist on this node"):
        place.cri.create(sandbox, "main")


def test_a_killed_agent_is_noticed_at_its_return(place: RuntimeNode) -> None:
    """What the runtime starts while no agent answers is found by the audit: NRI is fail-open."""
    place.host.write_ledger(ledger(half()))
    agent = place.agent()
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)
    agent.process.identity.signal_group(signal.SIGKILL)
    agent.process.popen.wait(30)

    container = place.cri.run(sandbox, "main", {"NVIDIA_VISIBLE_DEVICES": "void"})
    again = place.agent()

    # Admission's void holds: it runs, but no card is visible to it.
    assert place.cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "void"
    logged = again.wait_for("container.share_missing")
    assert (logged["uid"], logged["container"]) == ("uid-1", "main")
    assert "NVIDIA_VISIBLE_DEVICES" in logged["reason"]


def test_an_agent_that_hangs_is_cut_off_and_comes_back_by_itself(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    agent = place.agent()
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)
    agent.process.identity.signal_group(signal.SIGSTOP)

    container = place.cri.run(sandbox, "main", {"NVIDIA_VISIBLE_DEVICES": "void"})
    agent.process.identity.signal_group(signal.SIGCONT)

    assert place.cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "void"
    agent.wait_for("nri.active", count=2)
    assert agent.wait_for("container.share_missing")["container"] == "main"
    second = place.cri.sandbox("pod", "uid-1", RESULT, space="other")
    assert place.cri.env(place.cri.run(second, "main"))["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


def test_two_copies_of_the_agent_do_not_disturb_each_other(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    place.agent()
    place.agent(plugin={"name": "dragoman", "index": "51"})
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    container = place.cri.run(sandbox, "main", {"LD_PRELOAD": "/mine.so"})

    env = place.cri.env(container)
    assert env["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    assert env["LD_PRELOAD"] == "/mine.so"


def test_fifty_pods_at_once_all_get_their_share(place: RuntimeNode) -> None:
    held = ledger()
    for number in range(50):
        grant = a_grant(f"GPU-{number % 2}", compute=2)
        held = held.adopt(an_allocation(grant, uid=f"uid-p{number}", pod=f"ai/p{number}"))
    place.host.write_ledger(held)
    agent = place.agent()

    def one(number: int) -> str:
        sandbox = place.cri.sandbox(f"p{number}", f"uid-p{number}", RESULT)
        return place.cri.create(sandbox, "main")

    with ThreadPoolExecutor(16) as pool:
        containers = list(pool.map(one, range(50)))

    assert len(set(containers)) == 50
    assert agent.events("container.rejected") == []
    again = place.agent(plugin={"name": "auditor", "index": "52"})
    assert again.wait_for("nri.active")["missing"] == 0
    assert again.wait_for("nri.active")["containers"] == 50


def test_a_runtime_that_takes_cdi_gets_cdi_and_an_older_one_device_nodes(
    place: RuntimeNode,
) -> None:
    place.host.write_ledger(ledger(Grant("main", "GPU-0", 80 * GIB, 100, exclusive=True)))
    (place.runtime.folder / "cdi" / "nvidia.json").write_text(
        '{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "GPU-0",'
        ' "containerEdits": {"env": ["FROM_CDI=yes"]}}]}'
    )
    configuration = place.host.configuration(place.runtime)
    configuration["profiles"]["nvidia"]["cdi"] = "nvidia.com/gpu={uuid}"
    agent = start_agent(place.runtime, place.host, configuration)
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    container = place.cri.run(sandbox, "main")

    env = place.cri.env(container)
    takes_cdi = agent.events("nri.configured")[-1]["cdi"]
    assert takes_cdi is not place.runtime.component.endswith("-1")
    assert ("FROM_CDI" in env) is takes_cdi
    nodes = Path(f"{place.host.folder}/dev/nvidia0").stat()
    assert stat.S_ISCHR(nodes.st_mode)
    if not takes_cdi:
        assert "nvidia0" in place.cri.exec(container, ["/bin/ls", f"{place.host.folder}/dev"])
    assert "CUDA_DEVICE_MEMORY_LIMIT" not in env


def test_the_daemon_may_be_restarted(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    agent = place.agent()
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)
    first = place.cri.run(sandbox, "main")

    place.runtime.stop()
    agent.wait_for("nri.disconnected")
    place.runtime.restart()
    place.cri.wait()

    logged = agent.wait_for("nri.active", count=2)
    assert logged["containers"] == 1
    assert logged["missing"] == 0
    place.cri.remove(first)
    again = place.cri.run(sandbox, "main")
    assert place.cri.env(again)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


def test_an_adjustment_larger_than_the_runtimes_buffer_arrives_whole(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    configuration = place.host.configuration(place.runtime)
    configuration["profiles"]["nvidia"]["env"] = {"LONG": "x" * 60_000}
    start_agent(place.runtime, place.host, configuration)
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    container = place.cri.run(sandbox, "main")

    assert len(place.cri.env(container)["LONG"]) == 60_000


def test_a_stale_second_copy_cannot_give_another_card(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    place.agent()
    stale = place.host.folder / "stale.json"
    stale.write_bytes(encode(ledger(half(index=1))))
    place.agent(plugin={"name": "stale", "index": "51"}, ledger={"file": str(stale)})
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    with pytest.raises(CriError, match="both tried to set"):
        place.cri.create(sandbox, "main")


def test_koordinators_hook_beside_the_agent_is_refused_where_it_says_otherwise(
    place: RuntimeNode,
) -> None:
    """A second copy plays Koordinator's hook: it sets a minor, as that hook does."""
    place.host.write_ledger(ledger(half(index=1)))
    configuration = place.host.configuration(place.runtime)
    profile: dict[str, Any] = {"names": "0", "devices": [], "cardDevices": [], "hamiCore": None}
    configuration["profiles"]["nvidia"] |= profile
    start_agent(
        place.runtime,
        place.host,
        configuration | {"plugin": {"name": "koordlet_nri", "index": "00"}},
    )
    place.agent()
    allocated = {"scheduling.koordinator.sh/device-allocated": "{}"}
    sandbox = place.cri.sandbox("pod", "uid-1", allocated)

    with pytest.raises(CriError, match="turn that gate off"):
        place.cri.create(sandbox, "main")


def test_wrong_bytes_on_the_socket_do_not_disturb_the_agent(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    place.agent()
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(str(place.runtime.nri))
        other.sendall(b"\xff" * 64)
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    container = place.cri.run(sandbox, "main")

    assert place.cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


def test_the_guides_curl_shows_the_share(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    (port,) = free_ports(1)
    place.agent(monitor={"listen": f"127.0.0.1:{port}"})
    sandbox = place.cri.sandbox("train", "uid-1", RESULT)
    container = place.cri.run(sandbox, "main")
    cache = place.cri.env(container)["CUDA_DEVICE_MEMORY_SHARED_CACHE"]
    # What the library would write, put where it would write it.
    own = place.host.folder / "vgpu" / "containers" / "uid-1_main"
    (own / Path(cache).name).write_bytes(_region())
    assert place.cri.exec(container, ["/bin/ls", "/tmp/vgpu"]).split() == [Path(cache).name]

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()

    labels = (
        'podnamespace="ai",podname="train",ctrname="main",vdeviceid="0",deviceuuid="GPU-0",'
        'zone="vGPU"'
    )
    assert f"vGPU_device_memory_limit_in_bytes{{{labels}}} {3000 * MIB}" in lines
    assert "dragoman_node_active 1" in lines
    place.cri.remove(container)
    within(30, lambda: not own.exists())


def test_the_command_becomes_the_agent(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    configuration = place.host.configuration(place.runtime)
    command = [sys.executable, "-P", "-c", ENTRY, "node", "--config"]
    agent = start_agent(place.runtime, place.host, configuration, command=command)
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    container = place.cri.run(sandbox, "main")

    assert place.cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    agent.process.stop()
    assert agent.events("agent.ended")


def test_the_agent_needs_no_capability(place: RuntimeNode) -> None:
    place.host.write_ledger(ledger(half()))
    without = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    command = [*without, sys.executable, "-P", "-m", "adapters.agent"]
    configuration = place.host.configuration(place.runtime)
    agent = start_agent(place.runtime, place.host, configuration, command=command)
    sandbox = place.cri.sandbox("pod", "uid-1", RESULT)

    container = place.cri.run(sandbox, "main")

    children = f"/proc/{agent.process.popen.pid}/task/{agent.process.popen.pid}/children"
    (pid,) = Path(children).read_text().split() or [str(agent.process.popen.pid)]
    assert "CapEff:\t0000000000000000" in Path(f"/proc/{pid}/status").read_text()
    assert place.cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    place.cri.exec(container, ["/bin/sh", "-c", "echo x >/tmp/vgpu/a"])


def _region() -> bytes:
    """One card with a bound, as HAMi-core lays it out in version 1.2."""
    data = bytearray(VERSION_1.size + 1)
    struct.pack_into("<iII", data, 0, MAGIC, 1, 2)
    struct.pack_into("<Q", data, VERSION_1.cards, 1)
    data[VERSION_1.uuids : VERSION_1.uuids + 5] = b"GPU-0"
    struct.pack_into("<Q", data, VERSION_1.limits, 3000 * MIB)
    return bytes(data)
