"""A review that the API server did not send: it may add to what is held, and takes nothing away.

docs/concepts/security.md states what they show.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from adapters.dialects.dra.tests.builders import a_result, a_share
from adapters.service.decide.ports import Outcome
from adapters.service.decide.service import NODES_AT_ONCE
from adapters.service.endpoints.admission import Admission
from adapters.service.endpoints.tests.reviews import bind, response
from adapters.service.tests.builders import (
    Json,
    a_node,
    a_pod,
    a_service,
    decoded,
    read_pod,
    review,
    run,
)
from adapters.service.tests.claims import (
    ClaimBench,
    LiveClaims,
    a_claim,
    asking,
    bare,
    slice_of,
)
from adapters.wire.kube import pod_ref
from core.hardware.quantity import FULL, GIB, MIB
from core.requests.grant import Allocation, Grant

NODES = ("n1", "n2", "n3", "n4")


class Rig(ClaimBench):
    """A service, and what the API server has."""

    def __init__(self, *pods: Json) -> None:
        bench = run(a_service(*map(a_node, NODES), pods=pods))
        super().__init__(bench, *map(slice_of, NODES), live=LiveClaims())

    def forge(self, claim: Any, *, dry: bool = False) -> Any:
        """Any client sends a review of a claim that allegedly had no devices before."""
        return self.ask(claim, dry=dry)

    def ledgers(self) -> list[Mapping[str, Allocation]]:
        return [self.ledger(node).allocations for node in NODES]

    def adopt(self, allocation: Allocation) -> None:
        """The reconciler has written what runs."""
        stored = run(self.bench.store.read(allocation.node))
        assert stored is not None
        run(self.bench.store.write(stored.ledger.adopt(allocation), stored.version))
        run(self.bench.sync())


# --- /admission/claims ---------------------------------------------------------------------------


RUNNING = a_claim(a_share("gpu-0", memory="6Gi"))


def with_running_claim() -> Rig:
    rig = Rig()
    rig.live.put(bare(RUNNING))
    assert rig.forge(RUNNING)["allowed"]
    rig.live.put(RUNNING)
    return rig


@pytest.mark.parametrize(
    "forged",
    [
        a_claim(a_share("gpu-1", memory="1Mi")),
        a_claim(a_share("gpu-0", memory="1Mi")),
        a_claim(a_share("gpu-1", memory="1Mi"), nodes=("n2",)),
        asking(a_claim(a_result("gpu-1"))),
    ],
)
def test_a_review_moves_or_shrinks_no_claim_that_runs(forged: Any) -> None:
    rig = with_running_claim()
    before = rig.ledgers()

    answer = rig.forge(forged)

    assert answer["status"] == {
        "code": 403,
        "message": "dragoman: the API server's team/c has devices already",
    }
    assert rig.ledgers() == before
    assert not rig.forge(forged, dry=True)["allowed"]
    outcomes = [each.outcome for each in rig.bench.decision_log.decisions]
    assert outcomes[-2:] == [Outcome.REFUSED, Outcome.REFUSED]


@pytest.mark.parametrize("uid", ["u1", "uid-p"])
def test_a_review_of_a_claim_that_does_not_exist_holds_nothing(uid: str) -> None:
    """Also not with the uid of a running pod, whose cards it would take over."""
    rig = Rig(a_pod())
    run(bind(rig.bench, "p", "n1"))
    before = rig.ledgers()

    answer = rig.forge(a_claim(a_share("gpu-0", memory="1Mi"), uid=uid))

    assert answer["status"]["message"] == "dragoman: the API server has no such claim team/c"
    assert rig.ledgers() == before


def test_a_review_adds_to_what_an_attempt_under_way_holds() -> None:
    rig = Rig()
    rig.live.put(bare(RUNNING))
    assert rig.forge(RUNNING)["allowed"]

    assert rig.forge(a_claim(a_share("gpu-1", memory="1Mi")))["allowed"]
    assert rig.forge(a_claim(a_share("gpu-0", memory="1Mi")))["allowed"]

    (held,) = rig.ledger().allocations.values()
    assert [(grant.card, grant.memory) for grant in held.grants] == [
        ("GPU-n1-0", 6 * GIB),
        ("GPU-n1-1", MIB),
    ]
    assert held.devices == ""
    assert rig.forge(RUNNING)["allowed"]


def test_a_review_replaces_nothing_that_cannot_be_read_or_is_a_pods() -> None:
    rig = Rig()
    rig.live.put(bare(RUNNING))
    blocked = frozenset({"GPU-n1-0"})
    unread = Allocation("u1", "team/c", "dra", "n1", (), unread="garbled", blocked=blocked)
    of_pod = Allocation("u1", "team/p", "volcano", "n1", (Grant("", "GPU-n1-0", GIB, FULL),))

    for earlier in (unread, of_pod):
        rig.adopt(earlier)
        assert not rig.forge(a_claim(a_share("gpu-1", memory="1Mi")))["allowed"]
        assert rig.ledger().allocations == {"u1": earlier}


def test_a_review_holds_cards_of_few_nodes_for_a_claim_that_waits() -> None:
    rig = Rig()
    rig.live.put(bare(RUNNING))

    answers = [rig.forge(a_claim(a_result("gpu-0"), nodes=(node,))) for node in NODES]

    assert [each["allowed"] for each in answers] == [True] * NODES_AT_ONCE + [False]
    assert answers[-1]["status"]["message"] == (
        "dragoman: attempts to place team/c hold cards of n1, n2, n3: try again"
    )
    assert rig.forge(a_claim(a_result("gpu-0"), nodes=("n2",)))["allowed"]


def test_a_claim_waits_while_the_api_server_does_not_say_what_it_has() -> None:
    rig = with_running_claim()
    rig.live.failure = OSError("no answer")
    before = rig.ledgers()

    assert rig.forge(a_claim(a_share("gpu-1", memory="1Mi")))["status"]["code"] == 503
    assert rig.ledgers() == before


# --- /admission/bindings -------------------------------------------------------------------------


def bound_to(pod: Json, node: str) -> Json:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_review_of_a_bound_pods_binding_holds_nothing(node: str) -> None:
    rig = Rig(a_pod())
    run(bind(rig.bench, "p", "n1"))
    run(rig.bench.cluster.bind(pod_ref(read_pod(a_pod())), "n1", {}, {}))
    before = rig.ledgers()

    answer = response(run(bind(rig.bench, "p", node)))

    assert answer["status"] == {"code": 409, "message": "pod default/p is bound to n1 already"}
    assert rig.ledgers() == before
    assert not response(run(bind(rig.bench, "p", node, dry=True)))["allowed"]


def test_a_pod_that_was_created_again_is_bound_although_the_watch_is_late() -> None:
    rig = Rig(a_pod())
    rig.bench.cluster.late["default/p"] = read_pod(bound_to(a_pod(), "n2"))

    assert response(run(bind(rig.bench, "p", "n1")))["allowed"]


def test_a_review_frees_no_card_of_a_pod_whose_record_cannot_be_read() -> None:
    rig = Rig(a_pod())
    blocked = frozenset({"GPU-n1-0", "GPU-n1-1"})
    unread = Allocation("uid-p", "default/p", "volcano", "n1", (), unread="?", blocked=blocked)
    rig.adopt(unread)

    answer = response(run(bind(rig.bench, "p", "n1")))

    assert answer["status"]["message"] == "n1: held by an allocation that cannot be read"
    assert rig.ledger().allocations == {"uid-p": unread}


def test_a_review_changes_no_card_of_a_pod_that_has_some() -> None:
    rig = Rig(a_pod(memory=1000, count=1))
    run(bind(rig.bench, "p", "n1"))
    (before,) = rig.ledger().allocations.values()
    other = next(each for each in ("GPU-n1-0", "GPU-n1-1") if each != before.grants[0].card)
    chosen = {
        "volcano.sh/vgpu-ids-new": f"{other},NVIDIA,1,0:",
        "volcano.sh/vgpu-node": "n1",
    }

    run(bind(rig.bench, "p", "n1", chosen))

    (after,) = rig.ledger().allocations.values()
    assert replace(after, attempt=before.attempt) == before


def test_a_review_holds_cards_of_few_nodes_for_a_pod_that_waits() -> None:
    rig = Rig(a_pod())

    answers = [response(run(bind(rig.bench, "p", node))) for node in NODES]

    assert [each["allowed"] for each in answers] == [True] * NODES_AT_ONCE + [False]
    assert answers[-1]["status"] == {
        "code": 409,
        "message": "attempts to place default/p hold cards of n1, n2, n3: try again",
    }


def test_a_review_of_an_unknown_pods_binding_holds_nothing() -> None:
    rig = Rig()

    assert not response(run(bind(rig.bench, "ghost", "n1")))["allowed"]
    assert rig.ledgers() == [{}] * len(NODES)


# --- /admission/pods -----------------------------------------------------------------------------


@pytest.mark.parametrize("uid", ["uid-p", "uid-new"])
def test_a_review_of_a_new_pod_changes_nothing(uid: str) -> None:
    rig = Rig(a_pod())
    run(bind(rig.bench, "p", "n1"))
    before, writes = rig.ledgers(), rig.bench.store.writes
    known = rig.bench.service.pod_requests.get("uid-p")
    forged = a_pod(memory=1)
    forged["metadata"]["uid"] = uid

    answer = run(decoded(Admission(rig.bench.service).pods(review(forged))))

    assert response(answer)["allowed"]
    assert rig.ledgers() == before
    assert rig.bench.store.writes == writes
    assert rig.bench.service.pod_requests.get("uid-p") is known
    assert rig.bench.service.pod_requests.get("uid-new") is None
