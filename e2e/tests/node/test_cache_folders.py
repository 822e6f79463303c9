"""What containers leave in their cache folders delays no other container and stays on no disk."""

import os
import signal
import sys
from pathlib import Path

import pytest

from adapters.agent.injection.cache_dirs import FLAT
from core.hardware.quantity import MIB
from e2e.harness.node.agent import RunningAgent, start_agent
from e2e.harness.node.runtime_node import RuntimeNode
from e2e.harness.processes.waiting import within
from e2e.tests.node.builders import a_grant, a_ledger, an_allocation

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real containerd needs root")

RESULT = {"volcano.sh/vgpu-ids-new": "what stands here is not read"}
FILES = 20_000
HOSTILE = f"""
cd /tmp/vgpu && mkdir a.cache below && touch below/file a.cache/file && chown -R 1000:1000 below &&
chmod 700 below && mkdir -p deep/$(seq -s / 200) && seq {FILES} | xargs touch
"""


def confined_agent(place: RuntimeNode) -> RunningAgent:
    """An agent with the capabilities that the chart gives it."""
    only = [f"--{kind}=-all,+dac_override" for kind in ("inh-caps", "bounding-set")]
    command = ["setpriv", *only, "--no-new-privs", sys.executable, "-P", "-m", "adapters.agent"]
    configuration = place.host.configuration(place.runtime)
    return start_agent(place.runtime, place.host, configuration, command=command)


def left(caches: Path) -> list[str]:
    """What is in the folder of the containers' folders, but for the agent's own empty one."""
    names = {path.name for path in caches.iterdir()}
    if FLAT in names and not list((caches / FLAT).iterdir()):
        names.discard(FLAT)
    return sorted(names)


def test_a_full_cache_folder_delays_no_container_and_is_deleted(place: RuntimeNode) -> None:
    held = a_ledger(
        an_allocation(a_grant("GPU-0", 3000 * MIB), uid="uid-1"),
        an_allocation(a_grant("GPU-1", 3000 * MIB), uid="uid-2"),
        cards=2,
    )
    place.host.write_ledger(held)
    agent = confined_agent(place)
    caches = place.host.folder / "vgpu" / "containers"
    sandbox = place.cri.sandbox("hostile", "uid-1", RESULT)
    first = place.cri.run(sandbox, "main")
    place.cri.exec(first, ["/bin/sh", "-c", HOSTILE])
    full = len(list((caches / "uid-1_main").iterdir()))

    # The same container again, which blocked itself, and another one, which waited for the first.
    second = place.cri.create(sandbox, "main", attempt=1)
    place.cri.remove(first)
    place.cri.remove(second)
    other = place.cri.create(place.cri.sandbox("other", "uid-2", RESULT), "main")

    assert full > FILES
    assert agent.events("container.rejected") == []
    within(120, lambda: left(caches) == ["uid-2_main"])
    assert agent.events("hami_cache.delete_failed") == []
    place.cri.remove(other)


def test_an_agent_deletes_what_a_killed_one_left(place: RuntimeNode) -> None:
    place.host.write_ledger(a_ledger(an_allocation(a_grant("GPU-0", 3000 * MIB), uid="uid-1")))
    killed = confined_agent(place)
    caches = place.host.folder / "vgpu" / "containers"
    container = place.cri.run(place.cri.sandbox("pod", "uid-1", RESULT), "main")
    place.cri.exec(container, ["/bin/sh", "-c", HOSTILE])
    place.cri.remove(container)
    killed.process.identity.signal_group(signal.SIGKILL)
    within(30, lambda: killed.process.popen.poll() is not None)
    remains = left(caches)

    confined_agent(place)

    assert remains != []
    within(120, lambda: left(caches) == [])
