"""A container that requires the agent is not created while the agent is away: containerd >= 2.2."""

import os
import signal

import pytest

from e2e.harness.node.agent import Host, start_agent
from e2e.harness.node.containerd import start_containerd
from e2e.harness.node.cri import Cri, CriError
from e2e.harness.node.machine import start_machine
from e2e.harness.processes import cgroups
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.tests.node.builders import a_grant, a_ledger, an_allocation

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real containerd needs root")

REQUIRED = {
    "volcano.sh/vgpu-ids-new": "not read",
    "required-plugins.noderesource.dev/container.main": '["dragoman"]',
}


def test_a_container_that_requires_the_agent_waits_for_it() -> None:
    with run() as this:
        runtime = start_containerd(start_machine(this), "containerd")
        host = Host.make(this.folder / "host")
        host.write_ledger(a_ledger(an_allocation(a_grant(), pod="ai/train")))
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
