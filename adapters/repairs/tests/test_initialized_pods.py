"""What only init containers had is free once they have finished; each case from HAMi's source."""

from dataclasses import replace

import msgspec
import pytest

from adapters.dialects.hami.tests.builders import (
    HAMI,
    a_container,
    a_kube_node,
    a_mig_device,
    a_pod,
    cards,
    run,
    the_node,
)
from adapters.dialects.metax.dialect import Metax
from adapters.dialects.tests.builders import ALL
from adapters.repairs.plan import is_initialized, reconcile, recounted
from adapters.repairs.repairs import NodeView, Recount, repaired
from adapters.wire.kube import (
    InitContainerState,
    InitContainerStatus,
    Pod,
    PodStatus,
    Terminated,
)
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger

LOAD = a_container({"gpu": 1, "gpumem": 30000, "gpucores": 50}, "load")
SERVE = a_container({"gpu": 1, "gpumem": 8000, "gpucores": 20}, "serve")
WATCH = a_container({"gpu": 1, "gpumem": 1000}, "watch", sidecar=True)


def with_init(pod: Pod, **codes: int | None) -> Pod:
    """With these exit codes of its init containers; None for one that runs."""
    statuses = tuple(
        InitContainerStatus(
            name, "id", InitContainerState(None if code is None else Terminated(code))
        )
        for name, code in codes.items()
    )
    return msgspec.structs.replace(pod, status=PodStatus(init_container_statuses=statuses))


def started(*pods: Pod) -> NodeLedger:
    return run(NodeLedger.of(cards(1)), *pods)


def after(ledger: NodeLedger, *pods: Pod) -> NodeLedger:
    return repaired(ledger, recounted(ledger, pods, [HAMI]))


def in_use(ledger: NodeLedger) -> tuple[int, int, int]:
    """MiB, percent and slots of the one card."""
    [use] = ledger.usages
    return use.memory // MIB, use.compute, use.slots


def test_what_only_an_init_container_needs_is_free_when_it_has_succeeded() -> None:
    """pkg/scheduler/scheduler.go:205-214 (onUpdatePod): the pod then counts with
    AppContainersOnlyDeviceUsage, pkg/device/initContainer.go:116-163."""
    pod = a_pod(SERVE, init=[LOAD])
    ledger = started(pod)
    assert in_use(ledger) == (30000, 50, 1)

    ready = after(ledger, with_init(pod, load=0))

    assert in_use(ready) == (8000, 20, 1)
    assert in_use(run(ready, a_pod({"gpu": 1, "gpumem": 30000}))) == (38000, 20, 2)
    assert recounted(ready, [with_init(pod, load=0)], [HAMI]) == ()


@pytest.mark.parametrize("code", [None, 1])
def test_an_init_container_that_runs_or_has_failed_has_its_share(code: int | None) -> None:
    """AllInitContainersSucceeded, pkg/util/util.go:162-171."""
    pod = a_pod(SERVE, init=[LOAD])
    ledger = started(pod)

    assert recounted(ledger, [with_init(pod, load=code)], [HAMI]) == ()
    assert recounted(ledger, [pod], [HAMI]) == ()


def test_a_sidecar_keeps_its_share_and_holds_nothing_up() -> None:
    """For HAMi a sidecar is an init container that never ends, so that nothing becomes free."""
    pod = a_pod(SERVE, init=[WATCH, LOAD])
    running = with_init(pod, watch=None, load=0)

    assert is_initialized(running)
    assert in_use(after(started(pod), running)) == (9000, 20, 2)
    assert not is_initialized(with_init(a_pod(SERVE, init=[WATCH]), watch=0))


def test_all_init_containers_must_have_succeeded_also_those_without_a_share() -> None:
    plain = a_container({}, "plain")
    pod = a_pod(SERVE, init=[LOAD, plain])

    assert not is_initialized(with_init(pod, load=0))
    assert not is_initialized(with_init(pod, load=0, plain=None))
    assert is_initialized(with_init(pod, load=0, plain=0))


def test_a_card_that_only_an_init_container_has_is_idle_afterwards() -> None:
    pod = a_pod(a_container({}, "serve"), init=[LOAD])
    ledger = after(started(pod), with_init(pod, load=0))

    assert in_use(ledger) == (0, 0, 0)
    assert ledger.allocations[pod.metadata.uid].grants


def test_init_containers_that_run_again_count_again_when_there_is_room() -> None:
    """HAMi's scheduler does not count them again (InitContainerResourceReleased,
    pkg/device/pods.go:79-86); the kubelet runs them again in a new sandbox."""
    pod = a_pod(SERVE, init=[LOAD])
    ready = after(started(pod), with_init(pod, load=0))
    other = a_pod({"gpu": 1, "gpumem": 30000})
    full = run(ready, other)

    assert recounted(full, [with_init(pod, load=None)], [HAMI]) == ()
    assert in_use(after(ready, with_init(pod, load=None))) == (30000, 50, 1)


def test_two_pods_whose_init_containers_run_again_count_one_after_the_other() -> None:
    pods = [a_pod(SERVE, init=[LOAD]) for _ in range(2)]
    ledger = NodeLedger.of(cards(1))
    for pod in pods:
        ledger = after(run(ledger, pod), with_init(pod, load=0))

    again = recounted(ledger, [with_init(pod, load=None) for pod in pods], [HAMI])

    assert [each.allocation.uid for each in again] == [pods[0].metadata.uid]
    assert in_use(repaired(ledger, again))[0] == 38000


def test_slices_stay_the_pods() -> None:
    """HAMi counts all slices that the record has, also those of no container that counts.

    pkg/scheduler/scheduler.go:788-827, getNodesUsage.
    """
    node = the_node(a_kube_node(a_mig_device()))
    first = a_container({"gpu": 1, "gpumem": 9000}, "first")
    pod = a_pod({"gpu": 1, "gpumem": 4000}, init=[first])
    ledger = run(NodeLedger.of(node), pod)
    ready = after(ledger, with_init(pod, first=0))

    assert ready.usages[0].slices() == ledger.usages[0].slices()


def test_the_reconciler_counts_pods_that_it_adopts_in_the_same_look() -> None:
    pod = a_pod(SERVE, init=[LOAD], node="n")
    ledger = started(pod)
    allocation = ledger.allocations[pod.metadata.uid]
    view = NodeView(
        NodeLedger.of(cards(1)),
        cards(1),
        [with_init(pod, load=0)],
        {pod.metadata.uid: "n"},
        read=lambda *_: allocation,
    )

    repairs = reconcile(view, [HAMI])

    assert Recount(replace(allocation, initialized=True)) in repairs
    assert in_use(repaired(view.ledger, repairs)) == (8000, 20, 1)


def test_only_dialects_whose_scheduler_does_so_free_it() -> None:
    """HAMi's scheduler does so for all its vendors, also MetaX (pkg/device/metax/sdevice.go:77).

    Volcano counts the record until SubResource (v1.14.1 vgpu/device_info.go:238), Koordinator
    until the pod's end (v1.8.0 pkg/scheduler/plugins/deviceshare).
    """
    assert {each.name for each in ALL if each.frees_init_shares} == {"hami", Metax.name}
    pod = a_pod(SERVE, init=[LOAD])
    others = [each for each in ALL if not each.frees_init_shares]

    assert recounted(started(pod), [with_init(pod, load=0)], others) == ()
