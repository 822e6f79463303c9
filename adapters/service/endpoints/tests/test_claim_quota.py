"""ShareQuotas at the commit of ResourceClaims: pods and claims of a namespace count together."""

import asyncio
import json
from dataclasses import replace

import pytest

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dra.tests.builders import a_share
from adapters.service.decide.ports import Outcome
from adapters.service.decide.service import Service
from adapters.service.endpoints.claim_admission import ClaimAdmission
from adapters.service.reconcile.quotas import QuotaReconciler
from adapters.service.tests.builders import (
    DIALECTS,
    a_node,
    a_pod,
    a_service,
    read_pod,
    run,
)
from adapters.service.tests.claims import (
    AskedClaims,
    ClaimBench,
    a_claim,
    a_claim_of_one_card,
    claim_review,
    slice_of,
)
from adapters.stores.memory import MemoryQuotas
from core.hardware.quantity import GIB
from core.quota.amounts import QuotaAmounts, QuotaLimits
from core.quota.quota import Quota
from core.requests.reason import Cause, Reason

LIMIT = 6


class Rig(ClaimBench):
    """A service, and a quota of some GiB for the namespace of the claims."""

    def __init__(self, *, counted: bool = True) -> None:
        self.store = MemoryQuotas(
            (Quota("team", QuotaLimits(memory=LIMIT * GIB), counted=counted),)
        )
        super().__init__(run(a_service(a_node("n1"), quotas=self.store)), slice_of("n1"))
        run(self.see(self.bench.service))

    def endpoint_of(self, service: Service) -> ClaimAdmission:
        return ClaimAdmission(service, self.catalog, AskedClaims())

    async def see(self, service: Service) -> None:
        """The watch reports the quota."""
        found = await self.store.read("team")
        assert found is not None
        service.quotas.apply(found)

    def used(self) -> QuotaAmounts:
        found = run(self.store.read("team"))
        assert found is not None
        return found.quota.used()

    def held(self) -> set[str]:
        return set(self.ledger().allocations)


def a_pod_request(service: Service, memory: int) -> PodRequest:
    pod = a_pod("p", memory=memory)
    pod["metadata"]["namespace"] = "team"
    found = service.pod_requests.read(read_pod(pod))
    assert found is not None
    return found


def test_a_claim_counts_and_one_that_exceeds_the_quota_is_refused_with_the_reason() -> None:
    rig = Rig()

    first = rig.ask(a_claim(a_share("gpu-0", memory="4Gi")))
    second = rig.ask(a_claim_of_one_card(a_share("gpu-1", memory="4Gi"), uid="u2"))

    assert first["allowed"]
    assert second["status"] == {
        "code": 403,
        "message": "dragoman: quota of namespace team: memory 2 GiB short (4 GiB of 6 GiB used)",
    }
    assert rig.held() == {"u1"}
    assert rig.used() == QuotaAmounts(500, 4 * GIB, 0)
    refused = rig.bench.decision_log.decisions[-1]
    assert (refused.outcome, refused.cause) == (Outcome.REFUSED, "quota")


def test_what_a_pod_has_counts_for_a_claim_and_the_other_way_round() -> None:
    rig = Rig()
    assert rig.ask(a_claim(a_share("gpu-0", memory="3Gi")))["allowed"]

    service = rig.bench.service
    found = run(service.commit(a_pod_request(service, 4096), "n1"))[0]

    assert isinstance(found, Reason)
    assert found.cause is Cause.QUOTA
    assert not isinstance(run(service.commit(a_pod_request(service, 2048), "n1"))[0], Reason)
    answer = rig.ask(a_claim(a_share("gpu-1", memory="2Gi"), uid="u2"))
    assert "memory 1 GiB short (5 GiB of 6 GiB used)" in answer["status"]["message"]


@pytest.mark.parametrize("pod_first", [False, True])
def test_a_pod_and_a_claim_that_race_for_the_last_gib_do_not_both_get_it(pod_first: bool) -> None:
    """At two replicas, which decide by caches of the same age."""
    rig = Rig()
    ports = rig.bench.service.ports
    other = Service(DIALECTS, replace(ports))
    review = claim_review(a_claim(a_share("gpu-0", memory="4Gi")))

    async def race() -> tuple[bool, bool]:
        other.ledgers.load(await rig.bench.store.load())
        other.readiness.mark_synced("ledgers")
        await rig.see(other)
        calls = [
            rig.endpoint.statuses(review),
            other.commit(a_pod_request(other, 4096), "n1"),
        ]
        done = await asyncio.gather(*(reversed(calls) if pod_first else calls))
        claim, pod = reversed(done) if pod_first else done
        return json.loads(claim)["response"]["allowed"], not isinstance(pod[0], Reason)

    answers = run(race())

    assert sorted(answers) == [False, True]
    assert rig.used().memory == 4 * GIB
    assert len(rig.held()) == 1


def test_a_claim_that_is_corrected_counts_once() -> None:
    rig = Rig()
    assert rig.ask(a_claim(a_share("gpu-0", memory="3Gi"), uid="other"))["allowed"]
    service = rig.bench.service
    whole = a_pod("w", memory=5000)  # of another namespace: it fills what is left of gpu-0
    found = service.pod_requests.read(read_pod(whole))
    assert found is not None
    run(service.commit(found, "n1"))
    (name,) = {
        grant.card[-1]
        for each in service.ledgers.inventory.ledger("n1").allocations.values()
        if each.uid == "uid-w"
        for grant in each.grants
    }

    answer = rig.ask(a_claim_of_one_card(a_share(f"gpu-{name}", memory="3.5Gi"), uid="u1"))

    assert not answer["allowed"]
    assert rig.used().memory == 3 * GIB
    answer = rig.ask(a_claim_of_one_card(a_share(f"gpu-{name}", memory="3Gi"), uid="u1"))
    assert answer["allowed"]
    assert rig.used().memory == 6 * GIB


def test_a_claim_whose_devices_are_in_use_leaves_no_claim_of_the_quota() -> None:
    rig = Rig()
    service = rig.bench.service
    whole = service.pod_requests.read(read_pod(a_pod("w", memory=8192, count=2)))
    assert whole is not None
    run(service.commit(whole, "n1"))

    answer = rig.ask(a_claim(a_share("gpu-0", memory="1Gi")))

    assert "cannot take team/c" in answer["status"]["message"]
    assert rig.used() == QuotaAmounts()


def test_attempts_count_together_as_long_as_either_may_be_the_one_that_is_written() -> None:
    rig = Rig()
    assert rig.ask(a_claim(a_share("gpu-0", memory="3Gi")))["allowed"]
    assert rig.ask(a_claim(a_share("gpu-1", memory="2Gi")))["allowed"]
    assert not rig.ask(a_claim(a_share("gpu-1", memory="4Gi")))["allowed"]

    leader = QuotaReconciler(rig.bench.service, rig.store)
    run(leader.round())
    run(leader.round())

    assert rig.used().memory == 5 * GIB


def test_a_released_claim_gives_its_quota_back() -> None:
    rig = Rig()
    assert rig.ask(a_claim(a_share("gpu-0", memory="5Gi")))["allowed"]
    leader = QuotaReconciler(rig.bench.service, rig.store)
    run(leader.round())
    run(rig.bench.service.committer.release("u1", "n1"))

    run(leader.round())

    assert rig.used() == QuotaAmounts()
    assert rig.ask(a_claim(a_share("gpu-0", memory="6Gi"), uid="u2"))["allowed"]


def test_a_dry_run_says_what_the_quota_would_and_claims_nothing() -> None:
    rig = Rig()

    assert rig.ask(a_claim(a_share("gpu-0", memory="6Gi")), dry=True)["allowed"]
    answer = rig.ask(a_claim(a_share("gpu-0", memory="7Gi")), dry=True)

    assert "the pod counts 7 GiB of memory, and the limit is 6 GiB" in answer["status"]["message"]
    assert rig.used() == QuotaAmounts()


def test_a_claim_waits_until_the_quota_is_counted() -> None:
    rig = Rig(counted=False)

    answer = rig.ask(a_claim(a_share("gpu-0", memory="1Gi")))

    assert not answer["allowed"]
    assert "try again: the quota of namespace team is new" in answer["status"]["message"]
    assert rig.held() == set()


def test_a_namespace_without_a_quota_reads_and_writes_none() -> None:
    rig = Rig()
    claim = a_claim(a_share("gpu-0", memory="7Gi"))
    claim["metadata"]["namespace"] = "free"

    assert rig.ask(claim)["allowed"]
    assert rig.used() == QuotaAmounts()
