from adapters.sidecar.reconcile.orphans import OrphanTracker
from core.ledger.node_ledger import NodeLedger
from core.tests.builders import a_card, a_grant, empty, held, tentative


def booked(*uids: str) -> NodeLedger:
    ledger = empty(a_card())
    for uid in uids:
        ledger = ledger.reserve(tentative(held(a_grant(), uid=uid))).commit(uid)
    return ledger


def test_a_pod_that_is_gone_or_runs_elsewhere_holds_nothing_here() -> None:
    vigil = OrphanTracker(grace=10)

    found = vigil.abandoned(booked("gone", "here", "there"), {"here": "n", "there": "m"}, now=0)

    assert found == ("gone", "there")


def test_an_unbound_pod_keeps_its_cards_for_the_length_of_the_grace() -> None:
    vigil, ledger = OrphanTracker(grace=10), booked("p")

    found = [vigil.abandoned(ledger, {"p": ""}, now) for now in (100, 109, 110)]

    assert found == [(), (), ("p",)]


def test_every_attempt_to_bind_begins_the_grace_anew() -> None:
    vigil, ledger = OrphanTracker(grace=10), booked("p")
    vigil.abandoned(ledger, {"p": ""}, 100)

    again = ledger.renew("p")
    found = [vigil.abandoned(again, {"p": ""}, now) for now in (110, 119, 120)]

    assert found == [(), (), ("p",)]


def test_a_pod_that_was_bound_in_between_is_forgotten() -> None:
    vigil, ledger = OrphanTracker(grace=10), booked("p")
    vigil.abandoned(ledger, {"p": ""}, 100)
    vigil.abandoned(ledger, {"p": "n"}, 105)

    assert vigil.abandoned(ledger, {"p": ""}, 110) == ()


def test_other_changes_of_the_node_do_not_delay() -> None:
    vigil, ledger = OrphanTracker(grace=10), booked("p")
    vigil.abandoned(ledger, {"p": ""}, 100)

    other = ledger.reserve(tentative(held(a_grant(), uid="q"))).commit("q")

    assert vigil.abandoned(other, {"p": "", "q": "n"}, 110) == ("p",)
