"""Every call over a real unix socket, with its errors."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
from grpc_health.v1 import health_pb2, health_pb2_grpc

from adapters.dialects.adoption import adopt
from adapters.service.decide.ports import BindError, Outcome
from adapters.service.grpc import dragoman_pb2 as pb
from adapters.service.grpc.server import SERVICE
from adapters.service.grpc.tests.client import Connected, on
from adapters.service.tests.builders import (
    DIALECTS,
    a_pod,
    read_pod,
)
from adapters.stores.store import StoreError
from core.hardware.quantity import MIB
from core.requests.request import PodRef


def test_a_repeated_allocate_gives_the_same_committed_cards(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        first = await client.allocate("p")
        again = await client.allocate("p")

        assert (first.node, list(first.grants)) == (again.node, list(again.grants))
        assert first.grants[0].memory == 4000 * MIB
        assert not first.bound
        assert first.annotations["volcano.sh/vgpu-node"] == first.node
        assert client.allocations() == 1
        assert client.bench.cluster.bindings == 0
        assert client.bench.decision_log.decisions[-1].outcome is Outcome.HELD


def test_allocate_with_bind_binds_the_pod(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        given = await client.allocate("p", "n2", bind=True)

        pod = await client.bench.cluster.get(PodRef("default", "p"))
        assert pod is not None
        assert (given.node, given.bound) == ("n2", True)
        assert pod.spec.node_name == "n2"
        ledger = client.bench.service.ledgers.ledger("n2")
        assert ledger is not None
        found = adopt(pod, ledger.node, DIALECTS)
        assert found is not None
        assert [grant.card for grant in found.grants] == [grant.card for grant in given.grants]
        assert await client.refused(client.allocate("p")) == (
            "FAILED_PRECONDITION",
            "pod default/p is bound already, or has finished",
        )
        wanted = pb.ReleaseRequest(uid="uid-p", node="n2", attempt=given.attempt)
        code, _ = await client.refused(client.stub.Release(wanted))
        assert code == "FAILED_PRECONDITION"
        assert client.allocations() == 1


def test_only_the_latest_attempt_can_release_an_allocation(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        first = await client.allocate("p")
        again = await client.allocate("p")

        def released(attempt: int) -> Any:
            wanted = pb.ReleaseRequest(uid="uid-p", node=first.node, attempt=attempt)
            return client.stub.Release(wanted)

        code, text = await client.refused(released(first.attempt))
        assert code == "FAILED_PRECONDITION"
        assert "later attempt" in text
        assert (await released(again.attempt)).released
        assert not (await released(again.attempt)).released
        assert client.allocations() == 0


def test_a_stale_watch_does_not_release_the_cards_of_a_bound_pod(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        client.bench.cluster.late["default/p"] = read_pod(a_pod())
        given = await client.allocate("p", "n2", bind=True)

        wanted = pb.ReleaseRequest(uid="uid-p", node="n2", attempt=given.attempt)
        code, text = await client.refused(client.stub.Release(wanted))

        assert (code, client.allocations()) == ("FAILED_PRECONDITION", 1)
        assert "is bound" in text


def test_every_refusal_has_a_status_code_and_a_reason(folder: Path) -> None:
    pods = (a_pod("big", memory=9000), a_pod("bad", memory="-1"), a_pod("none", limits={"cpu": 1}))

    @on(folder, *pods, a_pod())
    async def _(client: Connected) -> None:
        code, text = await client.refused(client.allocate("big"))
        assert code == "RESOURCE_EXHAUSTED"
        assert "memory 808 MiB short" in text
        assert client.bench.decision_log.decisions[-1].outcome is Outcome.REFUSED
        code, text = await client.refused(client.allocate("bad"))
        assert code == "INVALID_ARGUMENT"
        assert "vgpu-memory" in text
        assert (await client.refused(client.allocate("none")))[0] == "FAILED_PRECONDITION"
        assert (await client.refused(client.allocate("unknown")))[0] == "NOT_FOUND"
        assert (await client.refused(client.allocate("p", "nowhere")))[0] == "RESOURCE_EXHAUSTED"
        assert client.allocations() == 0
        await client.allocate("p", "n1")
        assert (await client.refused(client.allocate("p", "n2")))[0] == "ALREADY_EXISTS"


def test_a_binding_that_fails_is_no_success(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        client.bench.cluster.answers = [BindError(403, "no"), BindError(0, "silence")]

        assert await client.refused(client.allocate("p", bind=True)) == ("ABORTED", "403: no")
        assert client.allocations() == 0
        assert await client.refused(client.allocate("p", bind=True)) == ("UNAVAILABLE", "silence")
        assert client.allocations() == 1


def test_errors_of_the_store_and_unexpected_errors_have_their_status_codes(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        client.bench.store.failures = [StoreError("gone")]
        assert await client.refused(client.allocate("p")) == ("UNAVAILABLE", "gone")

        client.bench.service.pod_requests.read = lambda _: 1 / 0  # type: ignore[method-assign, assignment, return-value]

        code, text = await client.refused(client.allocate("p"))
        assert (code, text.split()[-1]) == ("INTERNAL", "n-1")
        assert isinstance(client.failures[0], ZeroDivisionError)


def test_concurrent_allocates_never_share_a_full_card(folder: Path) -> None:
    pods = [a_pod(f"p{number}", memory=8192) for number in range(8)]

    @on(folder, *pods)
    async def _(client: Connected) -> None:
        asked = (client.allocate(f"p{number}") for number in range(8))
        given = await asyncio.gather(*asked, return_exceptions=True)

        won = [each for each in given if isinstance(each, pb.AllocateResponse)]
        assert len(won) == 4
        assert len({grant.card for each in won for grant in each.grants}) == 4
        assert all(not ledger.problems() for ledger in client.bench.service.ledgers.inventory)


def test_explain_answers_for_known_pods_and_manifests_and_allocates_nothing(folder: Path) -> None:
    @on(folder, a_pod(), a_pod("q"))
    async def _(client: Connected) -> None:
        known = await client.stub.Explain(pb.ExplainRequest(pod=pb.Pod(name="p")))
        assert sorted(known.fits) == ["n1", "n2"]
        assert known.best in known.fits
        assert known.dialect == "volcano"
        big = pb.ExplainRequest(manifest=orjson.dumps(a_pod("big", memory=9000)))
        found = await client.stub.Explain(big)
        assert found.refused["n1"] == "2 of 2 cards: memory 808 MiB short"
        assert (found.best, list(found.preemption_may_help)) == ("", [])
        assert found.summary.startswith("0 of 2 nodes fit")
        plain = pb.ExplainRequest(manifest=orjson.dumps(a_pod("q", limits={"cpu": 1})))
        assert (await client.stub.Explain(plain)).dialect == ""
        for garbage in (b"", b"{", b"\xff"):
            call = client.stub.Explain(pb.ExplainRequest(manifest=garbage))
            assert (await client.refused(call))[0] == "INVALID_ARGUMENT"
        assert client.allocations() == 0
        await client.allocate("p", "n1")
        await client.allocate("q", "n2")
        all_cards = orjson.dumps(a_pod("high", memory=8000, count=2, priority=10))
        high = await client.stub.Explain(pb.ExplainRequest(manifest=all_cards))
        assert high.notes[0].startswith("evicting default/p (priority 0) would make room on n1")


def test_explain_names_what_is_probably_misspelled(folder: Path) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        plain = {"cpu": 1, "nvidia.com/gpumemory": 1000}
        share = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100, "nvidia.com/gpucore": 10}

        for limits, meant, dialect in ((plain, "gpumem", ""), (share, "gpucores", "hami")):
            manifest = orjson.dumps(a_pod("q", limits=limits))
            found = await client.stub.Explain(pb.ExplainRequest(manifest=manifest))

            assert any(f"did you mean nvidia.com/{meant}?" in note for note in found.notes)
            assert found.dialect == dialect


def test_cards_are_listed_page_by_page_with_their_sharers(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        given = await client.allocate("p", "n2")

        first = await client.stub.ListCards(pb.ListCardsRequest(page_size=1))
        assert {card.node for card in first.cards} == {"n1"}
        token = first.next_page_token
        last = await client.stub.ListCards(pb.ListCardsRequest(page_size=1, page_token=token))
        assert last.next_page_token == ""
        (used,) = [card for card in last.cards if card.sharers]
        assert used.uuid == given.grants[0].card
        assert (used.used_memory, used.used_slots, used.mode) == (4000 * MIB, 1, "shared")
        assert [(one.pod, one.state) for one in used.sharers] == [("default/p", "committed")]
        one = await client.stub.ListCards(pb.ListCardsRequest(node="n1"))
        assert len(one.cards) == 2
        assert not (await client.stub.ListCards(pb.ListCardsRequest(node="n9"))).cards


def test_a_watch_sends_all_nodes_then_each_change(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        call = client.stub.WatchLedger(pb.WatchLedgerRequest())
        sent = [await call.read() for _ in range(3)]
        assert [each.node for each in sent] == ["n1", "n2", ""]
        assert sent[2].synced

        await client.allocate("p", "n2")
        change = await call.read()
        assert (change.node, change.version > sent[1].version) == ("n2", True)
        assert sum(len(card.sharers) for card in change.cards) == 1

        stored = await client.bench.store.read("n1")
        assert stored is not None
        await client.bench.store.delete("n1", stored.version)
        await client.bench.sync()
        gone = await call.read()
        assert (gone.node, gone.gone) == ("n1", True)
        call.cancel()


def test_a_watch_of_some_nodes_sends_no_others(folder: Path) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        call = client.stub.WatchLedger(pb.WatchLedgerRequest(nodes=["n2"]))

        assert [(await call.read()).node for _ in range(2)] == ["n2", ""]
        call.cancel()


def test_calls_are_unavailable_and_health_is_not_serving_before_the_ledgers_are_synced(
    folder: Path,
) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        states = {(await watch.read()).status}
        while health_pb2.HealthCheckResponse.SERVING not in states:
            states = {(await watch.read()).status}
        client.bench.service.readiness.mark_unsynced("pods")

        for call in (
            client.allocate("p"),
            client.stub.Release(pb.ReleaseRequest()),
            client.stub.Explain(pb.ExplainRequest()),
            client.stub.ListCards(pb.ListCardsRequest()),
            client.stub.WatchLedger(pb.WatchLedgerRequest()).read(),
        ):
            assert await client.refused(call) == ("UNAVAILABLE", "waiting for: pods")
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
