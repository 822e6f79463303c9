from adapters.service.reconcile.nodes.node_reader import OrphanTracker
from core.ledger.node_ledger import NodeLedger
from core.tests.builders import a_card, a_grant, empty, held, tentative


def booked(*uids: str) -> NodeLedger:
    ledger = empty(a_card())
    for uid in uids:
        ledger = ledger.reserve(tentative(held(a_grant(), uid=uid))).commit(uid)
    return ledger


def test_a_pod_that_was_deleted_or_runs_elsewhere_is_abandoned_at_once() -> None:
    tracker = OrphanTracker(10, 10)

    abandoned = tracker.abandoned(
        booked("gone", "here", "there"), {"here": "n", "there": "m"}, now=0
    )

    assert abandoned == ("gone", "there")


def test_an_unbound_pod_keeps_its_cards_during_the_grace() -> None:
    tracker, ledger = OrphanTracker(10, 10), booked("p")

    abandoned = [tracker.abandoned(ledger, {"p": ""}, now) for now in (100, 109, 110)]

    assert abandoned == [(), (), ("p",)]


def test_every_attempt_to_bind_restarts_the_grace() -> None:
    tracker, ledger = OrphanTracker(10, 10), booked("p")
    tracker.abandoned(ledger, {"p": ""}, 100)

    again = ledger.renew("p")
    abandoned = [tracker.abandoned(again, {"p": ""}, now) for now in (110, 119, 120)]

    assert abandoned == [(), (), ("p",)]


def test_a_pod_that_was_bound_in_between_restarts_the_grace() -> None:
    tracker, ledger = OrphanTracker(10, 10), booked("p")
    tracker.abandoned(ledger, {"p": ""}, 100)
    tracker.abandoned(ledger, {"p": "n"}, 105)

    assert tracker.abandoned(ledger, {"p": ""}, 110) == ()


def test_other_changes_of_the_node_do_not_extend_the_grace() -> None:
    tracker, ledger = OrphanTracker(10, 10), booked("p")
    tracker.abandoned(ledger, {"p": ""}, 100)

    other = ledger.reserve(tentative(held(a_grant(), uid="q"))).commit("q")

    assert tracker.abandoned(other, {"p": "", "q": "n"}, 110) == ("p",)
