"""What became of a Binding: the pod itself is read where the answer does not say so."""

import pytest

from adapters.dialects.dialect import Result
from adapters.service.decide.ports import BindError, Ports
from adapters.service.decide.service import send_binding
from adapters.service.tests.builders import (
    CountingCluster,
    FakeClock,
    RecordingDecisionLog,
    a_pod,
    read_pod,
    run,
)
from adapters.stores.memory import MemoryStore
from core.requests.request import PodRef

POD = PodRef("default", "p", "uid-p")
OTHER = PodRef("default", "p", "uid-other")
RESULT = Result({"grant": "now"}, {})

LOST = BindError(0, "no answer")
TIMEOUT = BindError(504, "timeout")
CONFLICT = BindError(409, "already assigned")


def outcome(cluster: CountingCluster, pod: PodRef = POD, node: str = "n1") -> BindError | None:
    async def work() -> BindError | None:
        try:
            ports = Ports(
                store=MemoryStore(),
                binder=cluster,
                pods=cluster,
                events=cluster,
                clock=FakeClock(),
                decision_log=RecordingDecisionLog(),
            )
            await send_binding(ports, pod, node, RESULT)
        except BindError as error:
            return error
        return None

    return run(work())


def a_cluster(answer: BindError | None, node: str = "", **annotations: str) -> CountingCluster:
    """A cluster that gives an answer; its pod is bound to a node, or not."""
    pod = a_pod("p", annotations=annotations)
    pod["spec"]["nodeName"] = node
    cluster = CountingCluster([read_pod(pod)])
    cluster.answers = [answer]
    return cluster


def test_a_binding_is_sent_once() -> None:
    cluster = a_cluster(None)

    assert outcome(cluster) is None
    assert cluster.bindings == 1


@pytest.mark.parametrize("answer", [LOST, TIMEOUT, CONFLICT])
@pytest.mark.parametrize("earlier", [{"grant": "now"}, {"grant": "earlier"}, {}])
def test_a_pod_that_is_bound_to_the_node_counts_as_bound_by_us(
    answer: BindError, earlier: dict[str, str]
) -> None:
    cluster = a_cluster(answer, "n1", **earlier)

    assert outcome(cluster) is None
    assert cluster.bindings == 1


@pytest.mark.parametrize("answer", [LOST, TIMEOUT, CONFLICT])
def test_a_pod_that_is_bound_to_another_node_is_a_conflict(answer: BindError) -> None:
    error = outcome(a_cluster(answer, "n2"))

    assert error is not None
    assert (error.status, error.definite) == (409, True)
    assert error.message == "the pod is bound to n2"


@pytest.mark.parametrize("answer", [LOST, TIMEOUT, CONFLICT])
def test_a_pod_that_is_gone_is_not_found(answer: BindError) -> None:
    error = outcome(a_cluster(answer, "n1"), OTHER)

    assert error is not None
    assert (error.status, error.definite) == (404, True)


@pytest.mark.parametrize("answer", [LOST, TIMEOUT, CONFLICT])
def test_a_pod_that_is_not_bound_keeps_the_answer(answer: BindError) -> None:
    assert outcome(a_cluster(answer)) is answer


@pytest.mark.parametrize("answer", [LOST, TIMEOUT, CONFLICT])
def test_a_pod_that_cannot_be_read_may_be_bound(answer: BindError) -> None:
    cluster = a_cluster(answer)
    cluster.unread = [OSError("no answer")]

    error = outcome(cluster)

    assert error is not None
    assert not error.definite


def test_another_refusal_is_final_and_the_pod_is_not_read() -> None:
    refused = BindError(403, "not allowed")
    cluster = a_cluster(refused)
    cluster.unread = [OSError("was read")]

    assert outcome(cluster) is refused
    assert cluster.unread
