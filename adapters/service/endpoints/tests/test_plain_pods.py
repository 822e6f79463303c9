"""Pods that a device plugin serves, on nodes of the ledger and on others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from adapters.dialects.merge import read_node
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind as bind_call
from adapters.service.endpoints.tests.kube_bodies import names, used
from adapters.service.endpoints.tests.reviews import admit, bind, response
from adapters.service.endpoints.volcano_extender import VolcanoExtender
from adapters.service.tests.builders import (
    DIALECTS,
    Bench,
    Json,
    a_node,
    a_pod,
    a_service,
    body,
    decoded,
    run,
)
from adapters.stores.store import Change
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import KUBELET
from core.tests.builders import a_card

PLAIN = (
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu.shared": 2},
    {"nvidia.com/mig-1g.5gb": 1},
    {"amd.com/gpu": 1},
    {"metax-tech.com/gpu": 1},
    {"nvidia.com/gpu": 4096},
    {"nvidia.com/gpu.shared": "16k"},
    {"nvidia.com/gpu": 2**63 - 1},
    {"nvidia.com/mig-1g.5gb": 2000},
    {"amd.com/gpu": 4096},
    {"dcu.com/gpu": 4096},
    {"metax-tech.com/gpu": 2**63 - 1},
)


def plain(name: str = "p", **limits: Any) -> Json:
    return a_pod(name, limits=limits or {"nvidia.com/gpu": 1})


@pytest.mark.parametrize("limits", PLAIN)
def test_a_plain_pod_is_created_as_it_is(limits: Json) -> None:
    with_node = a_pod(limits=limits)
    with_node["spec"]["nodeName"] = "n1"

    for pod in (a_pod(limits=limits), with_node):
        answer = response(run(admit(pod)))
        assert answer["allowed"] is True
        assert "patch" not in answer


@pytest.mark.parametrize("limits", PLAIN)
def test_a_plain_pod_is_bound_unchanged_to_a_node_without_a_ledger(limits: Json) -> None:
    async def work() -> tuple[Json, Json, Bench]:
        bench = await a_service(pods=[a_pod("p", limits=limits), a_pod("q", limits=limits)])
        called = await decoded(KubeExtender(bench.service).bind(bind_call("q", "stranger")))
        return await bind(bench, "p", "stranger"), called, bench

    answer, called, bench = run(work())

    assert response(answer)["allowed"] is True
    assert "patch" not in response(answer)
    assert called == {"Error": ""}
    assert (bench.store.writes, bench.cluster.bindings) == (0, 1)


@pytest.mark.parametrize("limits", PLAIN[:5])
def test_a_plain_pod_waits_where_a_ledger_was_deleted_until_it_is_made_again(limits: Json) -> None:
    async def work() -> list[str]:
        bench = await a_service(pods=[a_pod("p", limits=limits), a_pod("q")])
        ledgers, found = bench.service.ledgers, list[str]()
        ledgers.is_described = lambda node: node == "n1"
        stored = ledgers.stored("n1")
        assert stored is not None
        await bench.store.delete("n1", stored.version)
        ledgers.apply(Change("n1", None))
        extender = KubeExtender(bench.service)
        found.append((await decoded(extender.bind(bind_call("p", "n1"))))["Error"])
        found.append(response(await bind(bench, "p", "n1"))["status"]["message"])
        answer = await decoded(extender.filter(names(plain(**limits), "n1", "stranger")))
        assert answer["NodeNames"] == ["stranger"]
        ledgers.is_described = lambda _: False
        ledgers.look_at("n1")
        found.append((await decoded(extender.bind(bind_call("p", "n1"))))["Error"])
        return found

    missing = "try again: the ledger of node n1 was deleted, or is not made yet"

    assert run(work()) == [missing, missing, ""]


def test_a_pod_with_a_share_is_still_denied_there() -> None:
    async def work() -> Json:
        return await bind(await a_service(pods=[a_pod()]), "p", "stranger")

    assert response(run(work()))["status"]["message"] == "stranger: no cards"


def test_a_plain_pod_on_a_node_of_the_ledger_leaves_its_cards_to_no_other() -> None:
    async def work() -> tuple[Json, Json, Bench]:
        bench = await a_service(
            a_node("n1", cards=1), a_node("n2", cards=1), pods=[plain(), a_pod("q"), plain("r")]
        )
        first = await bind(bench, "p", "n1")
        refused = await bind(bench, "q", "n1")
        await bind(bench, "q", "n2")
        second = await bind(bench, "r", "n2")
        assert response(first)["allowed"] is True
        return refused, second, bench

    refused, second, bench = run(work())

    (held,) = bench.service.ledgers.inventory.ledger("n1").allocations.values()
    assert (held.dialect, held.grants, len(held.blocked)) == (KUBELET, (), 1)
    assert "may be in use by a pod whose card the kubelet chose" in str(response(refused))
    assert "the kubelet, which would choose the card, does not know it" in str(response(second))
    assert used(bench, "n2") == ["uid-q"]


def test_an_agent_that_publishes_nvidia_gives_plain_pods_whole_cards_of_the_ledger() -> None:
    """Without the device plugin: nothing else describes the cards in a dialect of the request."""

    async def work() -> tuple[Json, Json, Json, Bench]:
        bench = await a_service(pods=[plain(), plain("q"), a_pod("r")])
        cards = (replace(a_card(), node="new", dialects=frozenset({"nvidia"})),)
        await bench.store.write(NodeLedger.of(Node("new", cards)), None)
        await bench.sync()
        first, second, share = [await bind(bench, name, "new") for name in "pqr"]
        return first, second, share, bench

    first, second, share, bench = run(work())

    (held,) = bench.service.ledgers.inventory.ledger("new").allocations.values()
    assert response(first)["allowed"] is True
    assert (held.dialect, [grant.card for grant in held.grants]) == ("nvidia", ["a"])
    assert not response(second)["allowed"]
    assert not response(share)["allowed"]


def test_filter_and_scores_prefer_no_node() -> None:
    async def work() -> tuple[Json, Json, Json]:
        bench = await a_service(a_node("n1", cards=1), pods=[a_pod("q")])
        await bind(bench, "q", "n1")
        bench.service.ledgers.put(Change("broken", None, "not readable"))
        kube = KubeExtender(bench.service)
        asked = names(plain(), "n1", "stranger", "broken")
        nodes = body({"Pod": plain(), "Nodes": {"items": [{"metadata": {"name": "stranger"}}]}})
        return (
            await decoded(kube.filter(asked)),
            await decoded(kube.prioritize(asked)),
            await decoded(kube.filter(nodes)),
        )

    filtered, scored, of_nodes = run(work())

    assert filtered["NodeNames"] == ["stranger"]
    assert {each["Score"] for each in scored} == {0}
    assert [each["metadata"]["name"] for each in of_nodes["Nodes"]["items"]] == ["stranger"]


def test_vc_scheduler_plans_a_plain_pod_without_a_reservation() -> None:
    async def work() -> tuple[Json, Json, Json, int]:
        bench = await a_service()
        volcano = VolcanoExtender(bench.service)
        task = {"UID": "uid-p", "NodeName": "stranger", "Status": 2, "Pod": plain()}
        node = {"Name": "stranger", "Node": {"metadata": {"name": "stranger"}}}
        predicate = await decoded(volcano.predicate(body({"task": task, "node": node})))
        allocated = await decoded(volcano.allocate(body({"task": task})))
        scores = await decoded(volcano.prioritize(body({"task": task, "nodes": [node]})))
        return predicate, allocated, scores, bench.service.ledgers.reservation_count()

    predicate, allocated, scores, reservations = run(work())

    assert not predicate.get("status")
    assert not allocated.get("errMsg")
    assert set(scores["nodeScore"].values()) == {0}
    assert reservations == 0


def test_a_node_that_is_described_while_a_plain_pod_waits_counts_it() -> None:
    """The scheduler chose the node before its agent reported for the first time."""

    async def work() -> tuple[Json, Json, Bench]:
        bench = await a_service(pods=[plain(), a_pod("q")])
        filtered = await decoded(KubeExtender(bench.service).filter(names(plain(), "new")))
        node, _ = read_node(a_node("new", cards=1), None, DIALECTS)
        await bench.store.write(NodeLedger.of(node), None)
        await bench.sync()
        await bind(bench, "p", "new")
        return filtered, await bind(bench, "q", "new"), bench

    filtered, refused, bench = run(work())

    assert filtered["NodeNames"] == ["new"]
    assert used(bench, "new") == ["uid-p"]
    assert "may be in use by a pod whose card the kubelet chose" in str(response(refused))


def test_a_node_that_is_described_no_more_gets_no_plain_pod_until_its_shares_end() -> None:
    """The kubelet could choose a card that a running pod has a share of."""

    async def work() -> tuple[Json, Json, Json]:
        bench = await a_service(a_node("n1", cards=1), pods=[a_pod("q"), plain(), a_pod("r")])
        await bind(bench, "q", "n1")
        await change(bench, lambda ledger: ledger.with_node(Node("n1", ())))
        refused, share = await bind(bench, "p", "n1"), await bind(bench, "r", "n1")
        await change(bench, lambda ledger: ledger.release("uid-q"))
        return refused, share, await bind(bench, "p", "n1")

    refused, share, bound = run(work())

    assert "pods have cards that nothing describes any more" in str(response(refused))
    assert response(share)["status"]["message"] == "n1: no cards"
    assert response(bound)["allowed"] is True


async def change(bench: Bench, edit: Callable[[NodeLedger], NodeLedger]) -> None:
    """Change the ledger of node n1 in the store, as another replica would."""
    stored = await bench.store.read("n1")
    assert stored is not None
    await bench.store.write(edit(stored.ledger), stored.version)
    await bench.sync()
