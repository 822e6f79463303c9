"""The questions of the dashboard, over HTTP and without a socket."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from msgspec.json import decode

from adapters.accounting.claim_cache import ClaimCache
from adapters.answer.answer import NodeGroup
from adapters.dialects.dra import DRA
from adapters.service.decide.advice.explain import WaitingAnswer
from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.observe.decision_log import StructuredDecisionLog, logger
from adapters.service.observe.metrics import Metrics
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_node,
    a_pod,
    a_service,
    body,
    read_pod,
    run,
)
from adapters.service.web.app import App
from adapters.service.web.dashboard import views
from adapters.service.web.dashboard.routes import dashboard
from adapters.service.web.dashboard.tests import fleet
from adapters.service.web.tests.calls import Got, app_of, call
from adapters.stores.store import Change, Stored, StoredQuota
from adapters.wire.dra import ResourceClaim
from adapters.wire.kube import KubeNode, Metadata, NodeStatus
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota
from core.requests.grant import Allocation, Grant

NODES = 40
TOO_LARGE = a_pod("large", memory=90_000)
AT = "/api/dashboard"


async def a_fleet() -> tuple[Bench, App]:
    """Two empty nodes of the bench, forty of the fleet, and those with a problem."""
    bench = await a_service(
        a_node("n1"), a_node("n2"), pods=[a_pod("p"), TOO_LARGE, a_pod("cpu", limits={"cpu": 1})]
    )
    numbers = [*range(NODES), *(int(name[-5:]) for name in (fleet.OVER, fleet.UNREAD, fleet.SICK))]
    for number in numbers:
        ledger = fleet.a_random_ledger(number)
        name = ledger.node.name
        bench.service.ledgers.put(Change(name, Stored(ledger, str(ledger.version))))
    bench.service.ledgers.put(Change(fleet.BROKEN, None, "the record cannot be read"))
    return bench, await app_of(bench)


def ask(*paths: str) -> list[Json]:
    async def work() -> list[Json]:
        _, app = await a_fleet()
        return [(await get(app, path)).json for path in paths]

    return run(work())


async def get(app: App, path: str, headers: Mapping[bytes, bytes] | None = None) -> Got:
    got = await call(app, "GET", f"{AT}/{path}", headers=[*(headers or {}).items()])
    assert got is not None
    return got


def names(found: Json) -> list[str]:
    return [row["name"] for row in found["rows"]]


def test_the_summary_counts_everything_and_names_the_values_of_the_filters() -> None:
    (found,) = ask("summary")

    assert found["nodes"] == 2 + NODES + 4
    assert found["cards"] == 2 * 2 + (NODES + 3) * fleet.CARDS
    assert found["unhealthyCards"] == 1
    assert found["nodesWithProblems"] == 4
    assert {each["name"] for each in found["models"]} == {*fleet.MODELS, "A10"}
    assert [each["name"] for each in found["namespaces"]] == sorted(fleet.NAMESPACES)
    assert found["awaited"] == ""


def test_nodes_with_problems_are_first_and_the_rest_is_by_name() -> None:
    (found,) = ask("nodes?limit=6")

    assert found["total"] == 2 + NODES + 4
    assert names(found)[:4] == [fleet.OVER, fleet.UNREAD, fleet.SICK, fleet.BROKEN]
    assert names(found)[4:] == ["n1", "n2"]
    assert [row["readable"] for row in found["rows"][:4]] == [True, True, True, False]
    over, unread, sick = (row["cards"] for row in found["rows"][:3])
    assert over[0]["over"]
    assert (unread[1]["freeMiB"], unread[1]["shares"][-1]["blocked"]) == (0, True)
    assert [card["healthy"] for card in sick].count(False) == 1


def test_every_node_is_on_exactly_one_page() -> None:
    pages = ask(*(f"nodes?sort=name&limit=10&offset={offset}" for offset in range(0, 50, 10)))

    listed = [name for page in pages for name in names(page)]
    assert len(listed) == len(set(listed)) == 2 + NODES + 4
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=NODE-02345", [fleet.UNREAD]),
        ("q=gpu-node-01234-7", [fleet.OVER]),
        ("q=research+job-node-02345-92", [fleet.UNREAD]),
        ("q=nothing", []),
        ("node=n2", ["n2"]),
        ("node=n", []),
        ("model=A10", ["n1", "n2"]),
        ("health=problems&sort=name", [fleet.OVER, fleet.UNREAD, fleet.SICK, fleet.BROKEN]),
        ("health=healthy&node=node-03456", []),
        ("namespace=none", []),
        ("dialect=metax", []),
        ("freeMiB=81921", []),
    ],
)
def test_a_filter_finds(query: str, expected: list[str]) -> None:
    (found,) = ask(f"nodes?{query}")

    assert names(found) == expected
    assert found["total"] == len(expected)


def test_filters_and_orders_compare_what_they_name() -> None:
    by_free, by_granted, reverse, free = ask(
        "nodes?sort=free&limit=200",
        "nodes?sort=granted&limit=200",
        "nodes?sort=granted&order=reverse&limit=200",
        "nodes?freeMiB=70000&limit=200",
    )

    largest = [row["largestMiB"] for row in by_free["rows"]]
    granted = [row["grantedMiB"] for row in by_granted["rows"]]
    assert largest == sorted(largest, reverse=True)
    assert granted == sorted(granted, reverse=True)
    assert names(reverse) == names(by_granted)[::-1]
    assert 0 < free["total"] == sum(each >= 70_000 for each in largest)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("nodes?limit=201", "limit: '201': must be a whole number from 0 to 200"),
        ("nodes?offset=-1", "offset: '-1': must be a whole number"),
        ("nodes?freeMiB=1e3", "freeMiB: '1e3': must be a whole number"),
        ("nodes?offset=" + "9" * 5000, "offset: '999"),
        ("nodes?sort=size", "sort: 'size': must be one of problems, name, free"),
        ("nodes?health=ill", "health: 'ill': must be one of any, problems, healthy"),
        ("pods?q=" + "x" * 300, "q: 300 characters: must be 253 or fewer"),
        ("decisions?outcome=maybe", "outcome: 'maybe': must be one of any, no, yes"),
    ],
)
def test_an_invalid_parameter_is_named_with_what_is_valid(path: str, text: str) -> None:
    async def work() -> Got:
        _, app = await a_fleet()
        return await get(app, path)

    got = run(work())

    assert got.status == 400
    assert got.json["error"].startswith(text)


def test_a_node_has_all_its_problems_pods_and_decisions() -> None:
    over, broken, missing = ask(
        f"node?name={fleet.OVER}", f"node?name={fleet.BROKEN}", "node?name=none"
    )

    assert over["problemCount"] == len(over["problems"]) == 1
    assert {each["pod"] for each in over["holders"]} == {
        share["pod"] for card in over["cards"] for share in card["shares"]
    }
    assert broken["problems"] == ["the record cannot be read"]
    assert missing["error"] == "node 'none' is not known to this service"


def test_pods_are_found_by_name_namespace_dialect_and_node() -> None:
    every, research, one, hami, unread = ask(
        "pods?limit=200",
        "pods?namespace=research&limit=200",
        f"pods?q=job+{fleet.OVER}-90",
        f"pods?dialect=hami&node={fleet.OVER}",
        f"pods?node={fleet.UNREAD}&q=-92",
    )

    listed = [row["pod"] for row in every["rows"]]
    assert listed == sorted(listed)
    assert 0 < research["total"] < every["total"]
    assert all(row["pod"].startswith("research/") for row in research["rows"])
    assert [row["node"] for row in one["rows"]] == [fleet.OVER]
    assert {row["dialect"] for row in hami["rows"]} <= {"hami"}
    assert "no list of devices" in unread["rows"][0]["unread"]


def test_a_claim_names_its_pods_and_is_found_by_them() -> None:
    async def work() -> list[Json]:
        bench, app = await a_fleet()
        grant = Grant("", fleet.CARD.uuid, 80 * GIB, 100, exclusive=True)
        claim = Allocation("uid-c", "team/c", DRA, "n9", (grant,))
        card = replace(fleet.CARD, node="n9")
        held = NodeLedger.of(Node("n9", (card,))).adopt(claim)
        bench.service.ledgers.put(Change("n9", Stored(held, "1")))
        result = {"driver": "d", "pool": "n9", "device": "gpu-0"}
        users = [{"resource": "pods", "name": "user", "uid": "uid-user"}]
        plain = {
            "metadata": {"name": "c", "namespace": "team", "uid": "uid-c"},
            "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": users},
        }
        bench.cluster.claims = ClaimCache(lambda _: None)
        bench.cluster.claims.put_claim(decode(json.dumps(plain), type=ResourceClaim))
        paths = ("pod?name=team/user", "pod?name=team/c", "pods?q=team/user", "node?name=n9")
        return [(await get(app, path)).json for path in paths]

    pod, claim, listed, node = run(work())

    (row,) = pod["allocations"]
    assert (row["pod"], row["consumers"]) == ("team/c", ["team/user"])
    assert [row] == claim["allocations"] == listed["rows"] == node["holders"]


async def _scheduled() -> App:
    """A pod that was bound and one that was refused."""
    bench, app = await a_fleet()
    refused = {"Pod": TOO_LARGE, "NodeNames": ["n1", "n2"]}
    await call(app, "POST", "/extender/filter", body(refused))
    bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
    bound = await call(app, "POST", "/extender/bind", body(bind))
    assert bound is not None
    log = StructuredDecisionLog(logger("error", "json"), Metrics())
    claim = DecisionRecord("claim", Outcome.REFUSED, "team/c", "c", consumers=("team/p",))
    for decision in (*bench.decision_log.decisions, claim):
        log.record(decision)
    return App(dashboard(bench.service, log, bench.cluster.unbound, None, None), log)


def scheduled(*paths: str) -> list[Json]:
    async def work() -> list[Json]:
        app = await _scheduled()
        return [(await get(app, path)).json for path in paths]

    return run(work())


def test_a_pending_pod_has_its_request_and_the_reason_of_its_latest_refusal() -> None:
    found, none = scheduled("pending", "pending?q=nothing")

    (row,) = found["rows"]
    assert (row["pod"], row["dialect"], row["valid"]) == ("default/large", "volcano", True)
    assert row["containers"][0]["memoryMiB"] == 90_000
    assert row["reason"].startswith("0 of 2 nodes fit: 2 nodes: ")
    assert row["time"].endswith("+00:00")
    assert none["total"] == 0


def test_an_invalid_pending_pod_has_its_error_as_the_reason() -> None:
    async def work() -> Json:
        bench = await a_service(pods=[a_pod("bad", cores=150)])
        return (await get(await app_of(bench), "pending?namespace=default")).json

    (row,) = run(work())["rows"]

    assert not row["valid"]
    assert "volcano.sh/vgpu-cores" in row["reason"]


def test_a_pod_has_its_allocation_and_its_decisions_or_waits() -> None:
    bound, waits, missing = scheduled(
        "pod?name=default/p", "pod?name=default/large", "pod?name=default/none"
    )

    (allocation,) = bound["allocations"]
    assert (allocation["node"], allocation["memoryMiB"], bound["pending"]) == ("n1", 4000, False)
    assert bound["decisions"][0]["outcome"] == "bound"
    assert (waits["allocations"], waits["pending"]) == ([], True)
    assert missing["error"] == "pod 'default/none' is not known to this service"


def test_decisions_are_searched_and_filtered() -> None:
    every, yes, no, pod, node = scheduled(
        "decisions?q=default",
        "decisions?outcome=yes&pod=default/p",
        "decisions?outcome=no&q=large",
        "decisions?pod=default/p",
        "decisions?node=n1&q=bind",
    )

    assert every["total"] >= 2
    assert yes["rows"][0]["outcome"] == "bound"
    assert {row["outcome"] for row in no["rows"]} == {"refused"}
    assert {row["pod"] for row in pod["rows"]} == {"default/p"}
    assert {row["node"] for row in node["rows"]} == {"n1"}


def test_a_decision_about_a_claim_is_found_by_the_pod_of_the_claim() -> None:
    pod, claim, chosen, sought = scheduled(
        "pod?name=team/p", "pod?name=team/c", "decisions?pod=team/p", "decisions?q=team/p"
    )

    (decision,) = pod["decisions"]
    assert (decision["verb"], decision["pod"], decision["consumers"]) == (
        "claim",
        "team/c",
        ["team/p"],
    )
    assert claim["decisions"] == chosen["rows"] == sought["rows"] == [decision]


def test_an_explanation_groups_the_nodes_by_reason() -> None:
    found, plain, missing = scheduled(
        "explain?name=default/large", "explain?name=default/cpu", "explain?name=default/none"
    )

    assert found["fitting"] == 0
    assert found["rejected"] == 2 + NODES + 4
    assert sum(group["nodes"] for group in found["groups"]) == found["rejected"]
    assert len(found["groups"]) < 12
    assert (plain["dialect"], plain["summary"]) == (None, "requests no share")
    assert "is not known" in missing["error"]


def test_an_explanation_of_an_invalid_pod_is_its_error() -> None:
    async def work() -> Got:
        app = await app_of(await a_service(pods=[a_pod("bad", cores=150)]))
        return await get(app, "explain?name=default/bad")

    assert run(work()).status == 422


QUESTIONS = ["summary", "nodes", "pods", "pending", "decisions", f"node?name={fleet.OVER}"]


@pytest.mark.parametrize("path", QUESTIONS)
def test_the_same_answer_is_a_304_without_a_body(path: str) -> None:
    async def work() -> tuple[Got, Got, Got]:
        _, app = await a_fleet()
        first = await get(app, path)
        known = {b"if-none-match": b'"other", ' + first.headers[b"etag"]}
        other = {b"if-none-match": b'W/"other"'}
        return first, await get(app, path, known), await get(app, path, other)

    first, same, other = run(work())

    assert (first.status, same.status, other.status) == (200, 304, 200)
    assert same.content == b""
    assert b"content-length" not in same.headers
    assert same.headers[b"etag"] == first.headers[b"etag"]
    assert first.headers[b"cache-control"] == b"private, no-cache"
    assert first.headers[b"x-content-type-options"] == b"nosniff"


def test_a_changed_ledger_is_another_answer() -> None:
    async def work() -> list[Got]:
        _, app = await a_fleet()
        before = await get(app, "nodes?node=n1")
        bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
        await call(app, "POST", "/extender/bind", body(bind))
        tag = {b"if-none-match": before.headers[b"etag"]}
        return [before, await get(app, "nodes?node=n1", tag), await get(app, "nodes?node=n2", tag)]

    before, after, _ = run(work())

    assert after.status == 200
    assert (before.json["rows"][0]["pods"], after.json["rows"][0]["pods"]) == (0, 1)


def test_a_large_answer_is_compressed_for_clients_that_can_read_it() -> None:
    async def work() -> tuple[Got, Got]:
        _, app = await a_fleet()
        return await get(app, "nodes"), await get(
            app, "nodes", {b"accept-encoding": b"gzip, deflate, br"}
        )

    plain, packed = run(work())

    assert b"content-encoding" not in plain.headers
    assert packed.headers[b"content-encoding"] == b"gzip"
    assert packed.headers[b"vary"] == b"accept-encoding"
    assert json.loads(gzip.decompress(packed.content)) == plain.json
    assert len(packed.content) < len(plain.content) / 5


def test_hundred_different_questions_are_all_answered() -> None:
    async def work() -> list[int]:
        _, app = await a_fleet()
        return [(await get(app, f"nodes?offset={number}")).status for number in range(100)]

    assert set(run(work())) == {200}


def test_the_pods_of_a_namespace_come_with_its_quota() -> None:
    async def work() -> tuple[Json, Json, Json]:
        bench, app = await a_fleet()
        limits = QuotaLimits(memory=24 * GIB)
        quota = Quota("default", limits)
        before = (await get(app, "pods?namespace=default")).json
        bench.service.quotas.put(StoredQuota(quota, "1", "u"))
        asked = (await get(app, "pods?namespace=default")).json
        return before, asked, (await get(app, "pending")).json

    before, asked, all_pending = run(work())

    assert before["quota"] is None
    assert asked["quota"] == {"memoryMiB": {"used": 0, "limit": 24 * 1024}}
    assert all_pending["quota"] is None


MIG = "nvidia.com/mig-3g.20gb"


@pytest.mark.parametrize("in_ledger", [True, False], ids=["files", "cluster"])
def test_a_node_of_a_device_plugin_has_its_devices_and_pods_and_others_are_not_listed(
    in_ledger: bool,
) -> None:
    """Files have a ledger of every node; a cluster has none of a node that no dialect describes."""

    async def work() -> list[Json]:
        labels = {"nvidia.com/gpu.product": "NVIDIA-H100"}
        amounts: dict[str, int | str | float] = {"nvidia.com/gpu": "8", MIG: "2"}
        dgx = KubeNode(
            Metadata(name="dgx", labels=labels), status=NodeStatus(amounts, {**amounts, MIG: "1"})
        )
        cpu = KubeNode(Metadata(name="cpu"), status=NodeStatus({"cpu": "4"}, {"cpu": "4"}))
        users = [a_pod(name, limits={"nvidia.com/gpu": 3}) for name in ("a", "b")]
        for each in users:
            each["spec"]["nodeName"], each["status"]["phase"] = "dgx", "Running"
        waits = a_pod("waits", limits={MIG: 1})
        given = (dgx, cpu) if in_ledger else ()
        bench = await a_service(a_node("n1"), *given, pods=[*users, waits])
        bench.cluster.kube_nodes = {"dgx": dgx, "cpu": cpu}
        app = await app_of(bench)
        asked = ("summary", "nodes", "node?name=dgx", "pods", "pods?q=b", "pod?name=default/a")
        more = ("nodes?q=h100", "pending", "nodes?health=full", "nodes?health=idle", "overview")
        return [(await get(app, path)).json for path in (*asked, *more)]

    summary, listed, dgx, pods, one, pod, by_model, pending, full, idle, overview = run(work())

    assert (summary["nodes"], summary["cards"], summary["pods"]) == (2, 2, 2)
    assert sorted(names(listed)) == ["dgx", "n1"]
    assert names(by_model) == ["dgx"]
    assert names(full) == []
    assert sorted(names(idle)) == ["dgx", "n1"]
    squares = {name: cells for group in overview["groups"] for name, cells, _ in group["nodes"]}
    assert squares["dgx"] == "p9" * 6 + ".0" * 3 + "u0"
    assert dgx["readable"]
    assert dgx["unhealthy"] == 1
    assert [(each["resource"], each["inUse"], each["allocatable"]) for each in dgx["devices"]] == [
        ("nvidia.com/gpu", 6, 8),
        (MIG, 0, 1),
    ]
    assert dgx["devices"][0]["product"] == "NVIDIA-H100"
    assert [(each["pod"], each["devices"]) for each in dgx["holders"]] == [
        ("default/a", {"nvidia.com/gpu": 3}),
        ("default/b", {"nvidia.com/gpu": 3}),
    ]
    assert [each["pod"] for each in pods["rows"]] == ["default/a", "default/b"]
    assert [each["pod"] for each in one["rows"]] == ["default/b"]
    assert pod["allocations"][0]["devices"] == {"nvidia.com/gpu": 3}
    assert [each["devices"] for each in pending["rows"]] == [{MIG: 1}]


def test_each_list_counts_the_values_of_its_own_filters() -> None:
    nodes, pods, pending = scheduled("summary", "pods?namespace=research", "pending?q=nothing")

    assert {each["name"] for each in nodes["namespaces"]} >= set(fleet.NAMESPACES)
    assert [each["name"] for each in pending["namespaces"]] == ["default"]
    assert pending["dialects"] == [{"name": "volcano", "count": 1}]
    counted = {each["name"]: each["count"] for each in pods["namespaces"]}
    assert counted["research"] == pods["total"] < sum(counted.values())


@pytest.mark.parametrize("state", ["full", "idle"])
def test_nodes_with_a_full_or_an_idle_card_are_found(state: str) -> None:
    found, every = ask(f"nodes?health={state}&limit=200", "nodes?limit=200")

    words = {"full": {"full", "exclusive", "over"}, "idle": {"idle"}}[state]
    wanted = [row["name"] for row in every["rows"] if words & {c["state"] for c in row["cards"]}]
    assert names(found) == wanted
    assert 0 < len(wanted) < every["total"]


def test_decisions_name_their_replica_and_since_when() -> None:
    listed, pod = scheduled("decisions", "pod?name=default/p")

    for found in (listed, pod):
        assert found["replica"]
        assert found["since"].endswith("+00:00")


def test_a_waiting_pod_has_its_request_its_age_and_what_would_make_it_fit() -> None:
    """The remedies are those that ``dragoman explain`` prints, by the same function."""

    async def work() -> tuple[Json, Json, Json]:
        waits = {**a_pod("waits", memory=9000)}
        waits["metadata"]["creationTimestamp"] = "2026-11-28T14:00:00Z"
        bench = await a_service(pods=[waits, a_pod("fits")])
        app = await app_of(bench)
        paths = (
            "pod?name=default/waits",
            "explain?name=default/waits",
            "explain?name=default/fits",
        )
        one, two, three = [(await get(app, path)).json for path in paths]
        return one, two, three

    pod, explained, fits = run(work())

    assert pod["waiting"]["since"] == "2026-11-28T14:00:00Z"
    assert pod["waiting"]["containers"][0]["memoryMiB"] == 9000
    assert explained["remedies"] == ["request less for main: memory, at most 8192 MiB"]
    assert explained["plan"] == "dragoman defrag --for pod/waits -n default"
    assert (fits["remedies"], fits["plan"]) == ([], None)


def test_the_overview_has_totals_squares_namespaces_problems_and_what_waits() -> None:
    async def work() -> tuple[Json, Json, Json]:
        bench, app = await a_fleet()
        bench.cluster.put(read_pod(a_pod("bad", cores=150)))
        answer = WaitingAnswer(
            "0 of 2 nodes fit: 2 nodes: 2 of 2 cards: memory 2 GiB short",
            None,
            0,
            (NodeGroup("2 of 2 cards: memory 2 GiB short", 2, ("n1",)),),
            0,
        )
        bench.service.waiting_answers._by_uid["uid-large"] = answer
        paths = ("overview", "nodes?limit=200", "pending?cause=memory")
        one, two, three = [(await get(app, path)).json for path in paths]
        return one, two, three

    found, nodes, pending = run(work())

    cards = [card for row in nodes["rows"] for card in row["cards"]]
    squares = {name: cells for group in found["groups"] for name, cells, _ in group["nodes"]}
    assert sorted(squares) == sorted(names(nodes))
    assert sum(group["cards"] for group in found["groups"]) == len(cards)
    assert squares[fleet.SICK][6] == "u"
    assert squares[fleet.UNREAD][2:4] == "b9"
    assert squares[fleet.BROKEN] == "b9"
    assert squares["n1"] == ".0.0"
    assert found["idle"] == sum(card["state"] == "idle" for card in cards)
    assert sum(each["cards"] for each in found["free"]) == len(cards)
    assert found["largestMiB"] == max(row["largestMiB"] for row in nodes["rows"])
    assert found["largestNodes"] > 0
    assert {each["node"] for each in found["problems"]} == {
        fleet.OVER, fleet.UNREAD, fleet.SICK, fleet.BROKEN,
    }  # fmt: skip
    assert sum(each["grantedMiB"] for each in found["namespaces"]) == sum(
        row["grantedMiB"] for row in nodes["rows"]
    )
    causes = {each["cause"]: each["pods"] for each in found["waiting"]["causes"]}
    assert causes == {"memory": 1, "invalid request": 1, "not evaluated yet": 1}
    assert [row["pod"] for row in pending["rows"]] == ["default/large"]


def test_the_map_may_say_whose_the_largest_share_of_each_card_is() -> None:
    async def work() -> tuple[list[Json], list[NodeLedger], int]:
        bench, app = await a_fleet()
        asked = [await get(app, f"overview?color={name}") for name in ("namespace", "dialect")]
        wrong = await get(app, "overview?color=model")
        return [each.json for each in asked], [*bench.service.ledgers.inventory], wrong.status

    answers, ledgers, status = run(work())

    assert status == 400
    for found, has_namespaces in zip(answers, (True, False), strict=True):
        for ledger in ledgers:
            marks = found["owners"][ledger.node.name]
            assert len(marks) == len(ledger.node.cards)
            for mark, use in zip(marks, ledger.usages, strict=True):
                most = max((share.memory for share in use.shares), default=0)
                largest = [
                    ledger.allocations[share.uid] for share in use.shares if share.memory == most
                ]
                owners = {
                    each.pod_ref.namespace if has_namespaces else each.dialect for each in largest
                }
                assert (found["names"][int(mark)] in owners) if owners else mark == "-"


def test_the_overview_counts_more_devices_than_it_draws_and_those_of_no_product() -> None:
    """Devices that are shared in time are many, and no label names an AMD card."""

    async def work() -> Json:
        shared: dict[str, int | str | float] = {"nvidia.com/gpu": "80", "amd.com/gpu": "1E"}
        amd: dict[str, int | str | float] = {"amd.com/gpu": "8"}
        nodes = {
            "shared": KubeNode(Metadata(name="shared"), status=NodeStatus(shared, shared)),
            "amd": KubeNode(Metadata(name="amd"), status=NodeStatus(amd, amd)),
        }
        pod = a_pod("a", limits={"nvidia.com/gpu": 70})
        pod["spec"]["nodeName"], pod["status"]["phase"] = "shared", "Running"
        bench = await a_service(pods=[pod])
        bench.cluster.kube_nodes = nodes
        found: Json = (await get(await app_of(bench), "overview")).json
        return found

    groups = [each for each in run(work())["groups"] if each["served"]]

    counted = {each["model"]: (each["cards"], each["inUse"]) for each in groups}
    assert counted == {"nvidia.com/gpu": (80, 70), "amd.com/gpu": (8, 0)}
    cells = {name: cells for group in groups for name, cells, _ in group["nodes"]}
    assert cells == {"shared": "p9" * 64, "amd": ".0" * 8}


@pytest.mark.parametrize(
    ("summary", "best", "groups", "cause"),
    [
        ("gang a/g of 2: 1 of 2 fit together", None, (), "gang"),
        ("cards fit on n1", "n1", (), "cards fit, not bound yet"),
        ("requests no node", None, (), "requests no node"),
        ("0 fit", None, ("unreadable", "2 of 2 cards: compute 5% short"), "compute"),
        ("0 fit", None, ("unreadable",), "unreadable"),
        ("0 fit", None, ("x", "1 a/b: 0 of 2 free"), "1 a/b: 0 of 2 free"),
    ],
)
def test_pods_wait_for_a_cause_without_amounts(
    summary: str, best: str | None, groups: Sequence[str], cause: str
) -> None:
    found = tuple(
        NodeGroup(text, 1, (f"n{number}",)) for number, text in enumerate(groups, start=1)
    )

    assert views.cause_of(WaitingAnswer(summary, best, 0, found, 0), {"n1"}) == cause
