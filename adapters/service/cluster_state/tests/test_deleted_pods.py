"""Whether containers of a deleted pod may still run, and for how long."""

import pytest

from adapters.service.cluster_state import deleted_pods as departures
from adapters.service.cluster_state.deleted_pods import (
    DEFAULT_GRACE,
    MARGIN,
    UNKNOWN,
    Departures,
    release_by,
)
from adapters.wire.kube import Metadata, Pod, PodSpec, PodStatus


def leaving(
    node: str = "n1", phase: str | None = "Running", grace: int | None = None, uid: str = "7"
) -> Pod:
    spec = PodSpec(node_name=node, termination_grace_period_seconds=grace)
    return Pod(Metadata(uid=uid), spec, PodStatus(phase))


def until(pod: Pod, *, has_agent: bool = True, always: bool = True) -> int | None:
    seen = Departures()
    seen.note(pod)
    departure = seen.of(pod.metadata.uid)
    return release_by(departure, has_agent=has_agent, always=always, now=100)


def test_containers_of_a_running_pod_may_run_for_its_grace() -> None:
    assert until(leaving()) == 100 + DEFAULT_GRACE + MARGIN
    assert until(leaving(grace=300)) == 400 + MARGIN
    assert until(leaving(grace=0), has_agent=False) == 100 + MARGIN


def test_without_an_agent_they_run_on_only_where_the_settings_say_so() -> None:
    assert until(leaving(), has_agent=False, always=False) is None
    assert until(leaving(), always=False) == 100 + DEFAULT_GRACE + MARGIN


@pytest.mark.parametrize(
    "pod", [leaving(phase="Failed"), leaving(phase="Succeeded"), leaving(node="")]
)
def test_containers_of_a_finished_or_unbound_pod_do_not_run(pod: Pod) -> None:
    assert until(pod) is None


def test_a_pod_that_its_kubelet_had_not_seen_may_run_where_an_agent_can_say_so() -> None:
    pending = leaving(phase="Pending")

    assert until(pending) is not None
    assert until(pending, has_agent=False) is None
    seen = Pod(pending.metadata, pending.spec, PodStatus("Pending", "2026-01-01T00:00:00Z"))
    assert until(seen, has_agent=False) is not None


def test_a_pod_that_no_watch_reported_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "REMEMBERED", 1)
    seen = Departures()
    for uid in ("7", "8"):
        seen.note(leaving(phase="Failed", uid=uid))

    assert seen.of("7") is UNKNOWN
    assert release_by(UNKNOWN, has_agent=False, always=True, now=0) == DEFAULT_GRACE + MARGIN
    assert not seen.of("8").may_run
