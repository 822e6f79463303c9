"""A container that requires the agent is not created while the agent is away: containerd >= 2.2."""

import os
import signal

import pytest

from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from e2e.harness.node.agent import Host, start_agent
from e2e.harness.node.containerd import start_containerd
from e2e.harness.node.cri import Cri, CriError
from e2e.harness.node.machine import start_machine
from e2e.harness.processes import cgroups
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real containerd needs root")

REQUIRED = {
    "volcano.sh/vgpu-ids-new": "not read",
    "required-plugins.noderesource.dev/container.main": '["dragoman"]',
}


def test_a_container_that_requires_the_agent_waits_for_it() -> None:
    with run() as this:
        runtime = start_containerd(start_machine(this), "containerd")
        host = Host.make(this.folder / "host")
        cards = (Card("GPU-0", "real", 0, "nvidia", "A", 80 * GIB, 10),)
        grant = Grant("main", "GPU-0", GIB, 50)
        host.write_ledger(
            NodeLedger.of(Node("real", cards)).adopt(
                Allocation("uid-1", "ai/train", "volcano", "real", (grant,))
            )
        )
        with Cri.connect(runtime.socket, cgroups.create(this.folder), this.folder) as cri:
            cri.wait()
            sandbox = cri.sandbox("train", "uid-1", REQUIRED)

            # Before it ever came, and after it was killed.
            with pytest.raises(CriError, match='required plugin "dragoman" not present'):
                cri.create(sandbox, "main")
            agent = start_agent(runtime, host, host.configuration(runtime))
            container = cri.run(sandbox, "main")
            agent.process.identity.signal_group(signal.SIGKILL)
            log = next(each.log for each in this.processes if each.name == "containerd")
            within(30, lambda: "closed" in log.read_text().partition("50-dragoman")[2])
            # The runtime strikes a closed plugin off its list after the next question, whatever
            # that is: for a new pod that is the sandbox.
            other = cri.sandbox("other", "uid-2")
            with pytest.raises(CriError, match='required plugin "dragoman" not present'):
                cri.create(sandbox, "main", attempt=1)
            # Pods that do not require it start: the agent's own pod, and the node's other ones.
            beside = cri.run(other, "main")

            assert cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
            assert "NVIDIA_VISIBLE_DEVICES" not in cri.env(beside)
            start_agent(runtime, host, host.configuration(runtime))
            cri.create(sandbox, "main", attempt=2)
            cri.clear()
