"""Adoption of pods that a peer bound before Dragoman was installed."""

import json
from pathlib import Path

import msgspec
import pytest

from adapters.dialects.tests.builders import ALL, GOLDEN, NODE
from adapters.repairs.plan import drift, reconcile
from adapters.repairs.repairs import Adopt, NodeView, repaired
from adapters.wire.kube import Pod, PodStatus
from core.feasibility.fit import fit
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Placement

CASES = sorted(GOLDEN.glob("*.in.json"))


def running(case: Path) -> Pod:
    pod = msgspec.convert(json.loads(case.read_text())["pod"], Pod)
    return msgspec.structs.replace(pod, status=PodStatus("Running"))


def view(ledger: NodeLedger, pod: Pod) -> NodeView:
    return NodeView(ledger, NODE, (pod,), {pod.metadata.uid: NODE.name})


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a_pod_that_ran_before_is_adopted_and_nothing_is_ever_written_on_it(case: Path) -> None:
    pod, empty = running(case), NodeLedger.of(NODE)

    first = reconcile(view(empty, pod), ALL)
    ledger = repaired(empty, first)

    assert [type(repair) for repair in first] == [Adopt]
    assert reconcile(view(ledger, pod), ALL) == ()


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_cards_of_a_pod_that_ran_before_are_not_allocated_again(case: Path) -> None:
    pod, empty = running(case), NodeLedger.of(NODE)
    ledger = repaired(empty, reconcile(view(empty, pod), ALL))
    whole = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 100}
    raw = {
        "metadata": {"name": "new", "uid": "new"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": whole}}]},
    }
    held = {card.uuid for card, use in zip(NODE.cards, ledger.usages, strict=True) if use.shares}

    found = fit(ALL[0].read_request(msgspec.convert(raw, Pod)), ledger)

    if isinstance(found, Placement):
        assert held.isdisjoint(grant.card for grant in found.grants)


def test_a_card_that_the_node_does_not_have_is_reported_as_drift() -> None:
    pod, empty = running(GOLDEN / "volcano_unknown_card.in.json"), NodeLedger.of(NODE)
    ledger = repaired(empty, reconcile(view(empty, pod), ALL))

    (problem,) = drift(ledger, (pod,), ALL)

    assert (problem.pod, problem.text) == ("d/p", "holds card gone, which the node does not have")
