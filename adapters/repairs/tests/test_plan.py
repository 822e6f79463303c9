"""The repairs for any state of one node."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.adoption import adopt
from adapters.repairs.plan import drift, reconcile
from adapters.repairs.repairs import (
    Adopt,
    Annotate,
    Describe,
    Keep,
    NodeView,
    Release,
    ReleaseCause,
    Repair,
    repaired,
)
from adapters.service.reconcile.nodes.tests.pods import (
    GARBLED,
    NODE,
    SMALLER,
    a_wish,
    allocated,
    bound,
    placed,
    written,
)
from adapters.service.tests.builders import DIALECTS, a_pod, read_pod
from adapters.wire.kube import Pod, annotations
from core.durations import SECOND
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger

KOORD_CARD = Card(
    "GPU-old", "n1", 0, "nvidia", "A", 80 * GIB, 10, dialects=frozenset({"koordinator"})
)


@st.composite
def views(draw: st.DrawFn) -> NodeView:
    """Draw any ledger and any pods: each allocated or not, bound or not, with any annotations."""
    ledger = NodeLedger.of(NODE)
    pods: list[Pod] = []
    where: dict[str, str] = {}
    overdue: set[str] = set()
    lingering: dict[str, int] = {}
    stopped: set[str] = set()
    for number in range(draw(st.integers(0, 6))):
        pod = a_wish(number)
        uid = pod.metadata.uid
        placement = placed(pod, ledger)
        in_record = draw(st.sampled_from(("no", "yes", "yes", "unread")))
        if placement is not None and in_record == "yes":
            ledger = ledger.reserve(allocated(pod, placement)).commit(uid)
        elif in_record == "unread":
            unread = adopt(bound(pod, "n1", GARBLED), NODE, DIALECTS)
            assert unread is not None
            ledger = ledger.adopt(unread)
        match draw(st.sampled_from(("here", "here", "here", "there", "nowhere", "gone"))):
            case "here":
                says = draw(st.sampled_from(("right", "wrong", "garbled", "nothing")))
                other = placed(pod, NodeLedger.of(NODE))
                assert other is not None
                chosen = placement if says == "right" and placement else other
                values = written(pod, chosen, NODE).annotations
                values = {"garbled": GARBLED, "nothing": {}}.get(says, values)
                phase = draw(st.sampled_from(("Pending", "Running")))
                pods.append(bound(pod, "n1", values, phase))
                where[uid] = "n1"
            case "there":
                where[uid] = "n2"
            case "nowhere":
                where[uid] = ""
                if draw(st.booleans()):
                    overdue.add(uid)
            case _:
                kept = ledger.allocations.get(uid)
                if draw(st.booleans()):
                    lingering[uid] = 10
                if kept is not None and draw(st.booleans()):
                    ledger = ledger.adopt(replace(kept, release_by=draw(st.integers(5, 10))))
                    if draw(st.booleans()):
                        stopped.add(uid)
    node = draw(st.sampled_from((NODE, NODE, SMALLER, None)))
    return NodeView(
        ledger,
        node,
        tuple(pods),
        where,
        frozenset(overdue),
        lingering,
        draw(st.integers(5, 9)) * SECOND,
        stopped=frozenset(stopped),
    )


def carried_out(view: NodeView, repairs: tuple[Repair, ...]) -> NodeView:
    says = {r.pod.metadata.uid: r.result.annotations for r in repairs if isinstance(r, Annotate)}
    pods = tuple(
        msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata,
                annotations={**annotations(pod), **says.get(pod.metadata.uid, {})},
            ),
        )
        for pod in view.pods
    )
    return replace(view, ledger=repaired(view.ledger, repairs), pods=pods)


@given(views())
def test_after_one_reconcile_nothing_is_leaked_and_every_bound_pod_is_in_the_ledger(
    view: NodeView,
) -> None:
    after = carried_out(view, reconcile(view, DIALECTS)).ledger

    here = {pod.metadata.uid for pod in view.pods}
    waiting = {uid for uid, node in view.bound.items() if node == "" and uid not in view.overdue}
    kept = {uid for uid, each in after.allocations.items() if each.release_by is not None}
    assert here <= after.allocations.keys() <= here | waiting | kept
    assert not kept & view.stopped
    assert view.node is not None or not kept
    assert after.node == (view.node or view.ledger.node)


@given(views())
def test_a_second_reconcile_does_nothing(view: NodeView) -> None:
    after = carried_out(view, reconcile(view, DIALECTS))

    assert reconcile(after, DIALECTS) == ()
    assert drift(after.ledger, after.pods, DIALECTS) == drift(after.ledger, after.pods, DIALECTS)


@given(views())
def test_no_card_is_overcommitted_but_by_pods_that_other_schedulers_bound(
    view: NodeView,
) -> None:
    repairs = reconcile(view, DIALECTS)
    strangers = {r.allocation.uid for r in repairs if isinstance(r, Adopt)}
    allocated_here = {
        pod.metadata.uid for pod in view.pods
    } & view.ledger.allocations.keys() - strangers

    after = carried_out(view, repairs).ledger

    own = NodeLedger.of(after.node)
    for uid in allocated_here:
        if after.allocations[uid].unread is None and view.node != SMALLER:
            own = own.reserve(replace(after.allocations[uid], node="n1"))
    assert own.problems() == ()


@given(views())
def test_a_bound_pod_names_the_cards_of_its_ledger_or_is_reported(view: NodeView) -> None:
    after = carried_out(view, reconcile(view, DIALECTS))

    reported = {problem.pod for problem in drift(after.ledger, after.pods, DIALECTS)}
    for pod in after.pods:
        allocation = after.ledger.allocations[pod.metadata.uid]
        if allocation.unread is None and allocation.pod not in reported:
            found = adopt(pod, after.ledger.node, DIALECTS)
            assert found is not None
            assert {*found.grants} == {*allocation.grants}


def test_a_running_pod_gets_only_the_annotations_that_name_its_cards() -> None:
    pod = a_wish(0)
    placement = placed(pod, NodeLedger.of(NODE))
    assert placement is not None
    ledger = NodeLedger.of(NODE).reserve(allocated(pod, placement)).commit(pod.metadata.uid)

    def keys(phase: str) -> frozenset[str]:
        here = bound(pod, "n1", phase=phase)
        view = NodeView(ledger, NODE, (here,), {pod.metadata.uid: "n1"})
        (repair,) = reconcile(view, DIALECTS)
        assert isinstance(repair, Annotate)
        return frozenset(repair.result.annotations)

    assert "volcano.sh/bind-phase" in keys("Pending")
    assert keys("Running") < keys("Pending")
    assert "volcano.sh/bind-phase" not in keys("Running")


def test_a_pod_with_unreadable_annotations_blocks_cards_that_are_added_later_too() -> None:
    pod = bound(a_wish(0), "n1")
    unread = adopt(pod, SMALLER, DIALECTS)
    assert unread is not None
    view = NodeView(NodeLedger.of(SMALLER).adopt(unread), NODE, (pod,), {pod.metadata.uid: "n1"})

    after = repaired(view.ledger, reconcile(view, DIALECTS))

    assert after.allocations[pod.metadata.uid].blocked == {card.uuid for card in NODE.cards}


def test_each_release_has_its_cause() -> None:
    ledger = NodeLedger.of(NODE)
    for number in (0, 4, 8):
        pod = a_wish(number)
        placement = placed(pod, ledger)
        assert placement is not None
        ledger = ledger.reserve(allocated(pod, placement)).commit(pod.metadata.uid)
    view = NodeView(ledger, NODE, (), {"uid-p4": "n2", "uid-p8": ""}, frozenset({"uid-p8"}))

    found = [(r.allocation.uid, r.why) for r in reconcile(view, DIALECTS) if isinstance(r, Release)]

    assert found == [
        ("uid-p0", ReleaseCause.GONE),
        ("uid-p4", ReleaseCause.ELSEWHERE),
        ("uid-p8", ReleaseCause.NEVER_BOUND),
    ]


def test_the_cards_of_a_deleted_pod_stay_in_use_while_its_containers_may_run() -> None:
    pod = a_wish(0)
    placement = placed(pod, NodeLedger.of(NODE))
    assert placement is not None
    uid, ledger = pod.metadata.uid, NodeLedger.of(NODE)
    ledger = ledger.reserve(allocated(pod, placement)).commit(uid)
    view = NodeView(ledger, NODE, (), {}, lingering={uid: 50}, wall=10 * SECOND)

    (kept,) = reconcile(view, DIALECTS)
    later = replace(view, ledger=repaired(ledger, (kept,)), lingering={uid: 99})

    assert isinstance(kept, Keep)
    assert kept.allocation.release_by == 50
    assert later.ledger.usages == ledger.usages
    assert reconcile(later, DIALECTS) == ()
    assert _causes(replace(later, stopped=frozenset({uid}))) == [ReleaseCause.GONE]
    assert _causes(replace(later, wall=50 * SECOND)) == [ReleaseCause.UNCONFIRMED]
    assert _causes(replace(later, node=None)) == [ReleaseCause.GONE]


def test_the_cards_of_a_deallocated_claim_stay_in_use_although_an_agent_names_its_uid() -> None:
    """An older agent confirms each uid without a running container, and a claim has none."""
    pod = a_wish(0)
    placement = placed(pod, NodeLedger.of(NODE))
    assert placement is not None
    uid, held = pod.metadata.uid, replace(allocated(pod, placement), dialect="dra", release_by=50)
    ledger = NodeLedger.of(NODE).reserve(held).commit(uid)
    view = NodeView(ledger, NODE, (), {}, wall=10 * SECOND, stopped=frozenset({uid}))

    assert reconcile(view, DIALECTS) == ()
    assert _causes(replace(view, wall=50 * SECOND)) == [ReleaseCause.UNCONFIRMED]


def test_a_card_that_took_the_place_of_one_that_a_pod_has_is_in_use() -> None:
    limits = {"koordinator.sh/gpu-memory": "1Gi"}
    old, new = (Node("n1", (replace(KOORD_CARD, uuid=uuid),)) for uuid in ("GPU-old", "GPU-new"))
    pod = read_pod(a_pod("p", limits=limits))
    placement = placed(pod, NodeLedger.of(old))
    assert placement is not None
    here = bound(pod, "n1", written(pod, placement, old).annotations)
    uid = pod.metadata.uid
    ledger = NodeLedger.of(old).reserve(allocated(pod, placement)).commit(uid)
    view = NodeView(ledger, new, (here,), {uid: "n1"})

    after = repaired(ledger, reconcile(view, DIALECTS))
    back = repaired(after, reconcile(replace(view, ledger=after, node=old), DIALECTS))

    assert after.allocations[uid].blocked == {"GPU-new"}
    assert reconcile(replace(view, ledger=after), DIALECTS) == ()
    assert back.allocations[uid].grants == ledger.allocations[uid].grants


def _causes(view: NodeView) -> list[ReleaseCause]:
    return [repair.why for repair in reconcile(view, DIALECTS) if isinstance(repair, Release)]


def test_changed_cards_are_described() -> None:
    assert reconcile(NodeView(NodeLedger.of(NODE), SMALLER, (), {}), DIALECTS) == (
        Describe(SMALLER),
    )


@pytest.mark.parametrize("dialects", [{"koordinator"}, {"hami"}, {"koordinator", "hami"}])
def test_whole_cards_in_a_ledger_of_an_earlier_version_stay_as_they_are(
    dialects: set[str],
) -> None:
    node = Node("n1", (replace(KOORD_CARD, dialects=frozenset(dialects)),))
    pod = read_pod(a_pod("p", limits={"nvidia.com/gpu": 1}))
    placement = placed(pod, NodeLedger.of(node))
    assert placement is not None
    earlier = replace(allocated(pod, placement), dialect="koordinator")
    here = bound(pod, "n1", written(pod, placement, node).annotations)
    uid = pod.metadata.uid
    ledger = NodeLedger.of(node).reserve(earlier).commit(uid)

    view = NodeView(ledger, node, (here,), {uid: "n1"})

    assert reconcile(view, DIALECTS) == ()
    assert drift(ledger, (here,), DIALECTS) == ()


def test_unknown_cards_in_a_ledger_of_an_earlier_version_are_written_once() -> None:
    node = Node("n1", (KOORD_CARD,))
    here = bound(read_pod(a_pod("p", limits={"nvidia.com/gpu.shared": 1})), "n1")
    uid = here.metadata.uid
    found = adopt(here, node, DIALECTS)
    assert found is not None
    earlier = replace(found, dialect="nvidia-device-plugin", unread="runs on n1 without a record")
    ledger = NodeLedger.of(node).adopt(earlier)
    view = NodeView(ledger, node, (here,), {uid: "n1"})

    after = repaired(ledger, reconcile(view, DIALECTS))

    assert after.allocations[uid].blocked == {"GPU-old"}
    assert reconcile(replace(view, ledger=after), DIALECTS) == ()
