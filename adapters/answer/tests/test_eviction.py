"""Which pods would have to go: those that may be evicted."""

from dataclasses import replace

import pytest

from adapters.answer.eviction import NodeEviction, evictions_on
from adapters.dialects.dra import DRA
from adapters.wire.kube import Pod, PodSpec
from core.hardware.quantity import GIB
from core.requests.grant import Allocation
from core.tests.builders import a_card, a_container, a_grant, a_request, empty, held

URGENT = replace(a_request(a_container(16 * GIB)), priority=10)
HELD = held(a_grant("a", 16 * GIB), uid="low")


@pytest.mark.parametrize("there", [replace(HELD, dialect=DRA), replace(HELD, release_by=1)])
def test_what_cannot_be_evicted_makes_no_room_for_a_pod_of_high_priority(
    there: Allocation,
) -> None:
    ledger = empty(a_card()).adopt(there)

    assert list(evictions_on(URGENT, [ledger])) == []
    assert list(evictions_on(URGENT, [ledger], any_priority=True)) == [
        NodeEviction("n", (there,), preemption=False)
    ]
    assert list(evictions_on(URGENT, [empty(a_card()).adopt(HELD)])) == [
        NodeEviction("n", (HELD,), preemption=True)
    ]


@pytest.mark.parametrize("evicts", [True, False, None])
def test_for_a_pod_of_vc_scheduler_the_service_evicts_none(*, evicts: bool | None) -> None:
    eviction = NodeEviction("n", (HELD,), preemption=True)

    assert eviction.text(Pod(spec=PodSpec(scheduler_name="volcano")), evicts=evicts) == (
        "evicting default/low (priority 0) would make room on n; vc-scheduler does so only with"
        " its action preempt"
    )
