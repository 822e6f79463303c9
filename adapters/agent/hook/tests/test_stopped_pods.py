from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace

from adapters.agent.grants import GrantAnswer, LedgerGrants
from adapters.agent.hook.containers import StoppedPods
from adapters.agent.hook.tests.runtime import RESULT, running, subject
from adapters.agent.nri.model import ContainerState, NriContainer, PodSandbox
from adapters.agent.nri.session import ContainerEvent, Creating, Removed, Stopped, Synchronized
from adapters.agent.tests.builders import POD, ledger
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant
from core.requests.limits import GrantError
from e2e.harness.processes.waiting import within


def container(attempt: str, pod: str = "p1") -> NriContainer:
    return NriContainer(attempt, pod, "main", ContainerState.RUNNING)


def deleted() -> NodeLedger:
    """A ledger whose pod was deleted past its kubelet."""
    return ledger(Grant("main", "GPU-1", 1, 50), release_by=2_000_000_000)


def followed(record: NodeLedger | None = None) -> StoppedPods:
    pods = StoppedPods(LedgerGrants(record or deleted()))
    pods.observe(Synchronized((POD,), ()))
    return pods


def test_nothing_is_confirmed_before_a_runtime_has_listed_its_containers() -> None:
    pods = StoppedPods(LedgerGrants(deleted()))

    assert pods.confirmed() == ()
    pods.observe(Synchronized((), ()))
    assert pods.confirmed() == ("uid-1",)


def test_a_deleted_pod_is_confirmed_when_its_last_container_has_ended() -> None:
    pods, woken = followed(), list[int]()
    pods.observe(Creating(1, POD, container("c1")))
    pods.observe(Creating(3, POD, container("c2")))
    pods.subscribers.append(lambda: woken.append(1))

    pods.observe(Stopped(POD, container("c1")))
    pods.observe(Removed(POD, container("c1")))
    assert (pods.confirmed(), woken) == ((), [])
    pods.observe(Stopped(POD, container("c2")))

    assert (pods.confirmed(), woken) == (("uid-1",), [1])


def test_a_pod_that_was_not_deleted_is_not_confirmed_and_wakes_no_writer() -> None:
    pods, woken = followed(ledger()), list[int]()
    pods.subscribers.append(lambda: woken.append(1))
    pods.observe(Creating(1, POD, container("c1")))
    pods.observe(Stopped(POD, container("c1")))

    assert (pods.confirmed(), woken) == ((), [])
    pods.grants.clear()
    assert pods.confirmed() == ()


def test_a_claim_is_never_confirmed() -> None:
    """A claim's uid is no pod's, and so no container is known to be of it."""
    held = changed(deleted().allocations["uid-1"], uid="uid-claim", dialect="dra")

    assert followed(deleted().adopt(held)).confirmed() == ("uid-1",)


def test_a_creation_that_the_runtime_undoes_runs_no_more() -> None:
    pods = followed()
    pods.observe(Creating(1, POD, container("c1")))

    # It gives only the id.
    pods.observe(Stopped(PodSandbox("p1"), NriContainer("c1")))

    assert pods.confirmed() == ("uid-1",)


def test_a_list_of_the_runtime_replaces_what_was_known() -> None:
    pods = followed()
    pods.observe(Creating(1, POD, container("lost")))
    stopped = replace(container("c1"), state=ContainerState.STOPPED)

    pods.observe(Synchronized((POD,), (stopped, container("c2", "gone"))))
    assert pods.confirmed() == ("uid-1",)
    pods.observe(Synchronized((POD,), (stopped, container("c2"))))
    assert pods.confirmed() == ()


@pytest.mark.parametrize("unread", [None, "cards unknown"])
def test_no_container_of_a_deleted_pod_is_created(unread: str | None) -> None:
    held = changed(deleted().allocations["uid-1"], unread=unread)
    grants = LedgerGrants(ledger().adopt(held))

    with pytest.raises(GrantError, match="the pod was deleted"):
        grants.lookup("uid-1", "main")


def test_a_container_counts_before_the_ledger_is_read_for_it_and_not_after_a_rejection(
    tmp_path: Path,
) -> None:
    seen: list[ContainerEvent] = []

    class Grants(LedgerGrants):
        def lookup(self, pod: str, container: str) -> GrantAnswer:
            assert isinstance(seen[-1], Creating)
            return super().lookup(pod, container)

    with running(tmp_path, observe=seen.append) as at:
        at.plugin.policy.grants = Grants(ledger())
        at.plugin.policy.exempt = frozenset({"ai"})
        at.runtime.activate()

        at.runtime.call("CreateContainer", subject("plain"))
        at.runtime.call("StopContainer", subject("plain"))
        at.runtime.call("RemoveContainer", subject("plain"))
        at.runtime.call("CreateContainer", subject("refused", RESULT), timeout=0.1)

        within(30, lambda: len(seen) == 6)
        kinds = [Synchronized, Creating, Stopped, Removed, Creating, Removed]
        assert [type(event) for event in seen] == kinds
