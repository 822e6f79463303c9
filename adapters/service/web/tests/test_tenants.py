"""Answers about one namespace: all of its own, and counts of others."""

import asyncio
from pathlib import Path

import pytest

from adapters.service.observe.decision_log import logger
from adapters.service.runtime import Cluster, ServiceRuntime
from adapters.service.settings.settings import read
from adapters.service.standalone import LocalCluster
from adapters.service.tests.builders import Bench, Json, a_node, a_pod, a_service, body, run
from adapters.service.web.app import App
from adapters.service.web.tenants import PAUSE
from adapters.service.web.tests.calls import Got, app_of, call
from adapters.stores.memory import MemoryStore

OTHER = "secretive"
CREATED = "2026-01-31T12:00:00Z"


def pod_of(namespace: str, name: str, memory: int) -> Json:
    made = a_pod(name, memory=memory)
    made["metadata"] |= {
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": CREATED,
    }
    return made


async def a_shared_card() -> tuple[Bench, App]:
    """A card with a pod of ``ml`` and one of another namespace; of both a pod waits."""
    spaces = [("ml", "mine"), (OTHER, f"{OTHER}-model")]
    pods = [pod_of(*each, 2000) for each in spaces]
    waiting = [pod_of(space, f"{name}-waits", 90_000) for space, name in spaces]
    bench = await a_service(a_node("n1", cards=1), pods=[*pods, *waiting])
    app = await app_of(bench)
    for space, name in spaces:
        asks = {"PodName": name, "PodNamespace": space, "PodUID": f"uid-{space}-{name}"}
        got = await call(app, "POST", "/extender/bind", body({**asks, "Node": "n1"}))
        assert got is not None
        assert got.json == {"Error": ""}
    await bench.service.waiting_answers.round(bench.cluster.unbound())
    return bench, app


def asked(*paths: str) -> list[Got]:
    async def work() -> list[Got]:
        _, app = await a_shared_card()
        got = list[Got | None]()
        for path in paths:
            got.append(await call(app, "GET", f"/api/tenant/{path}"))
            await asyncio.sleep(1.5 * PAUSE if len(paths) > 1 else 0)
        return [each for each in got if each is not None]

    return run(work())


EVERY = (
    "pods?namespace=ml",
    "shares?namespace=ml&node=n1",
    "shares?namespace=ml&node=n1&card=0",
    "pending?namespace=ml",
    "explain?namespace=ml&pod=mine",
    "explain?namespace=ml&pod=mine-waits",
)


@pytest.mark.parametrize("path", EVERY)
def test_no_answer_names_what_is_of_another_namespace(path: str) -> None:
    (got,) = asked(path)

    assert got.status == 200
    assert b"mine" in got.content
    assert OTHER.encode() not in got.content


def test_the_pods_of_a_namespace_have_their_shares() -> None:
    pods, shares = asked("pods?namespace=ml", "shares?namespace=ml&node=n1")

    (row,) = pods.json["pods"]
    assert (row["pod"], row["node"], row["cards"], row["grantedMiB"]) == ("mine", "n1", 1, 2000)
    assert [each["pod"] for each in shares.json["shares"]] == ["mine"]
    assert shares.json["elsewhere"] == 1
    assert pods.json["created"] == shares.json["created"] == {"mine": CREATED}


def test_a_card_is_known_by_its_uuid_alone() -> None:
    async def work() -> tuple[Got | None, Got | None]:
        bench, app = await a_shared_card()
        ledger = bench.service.ledgers.ledger("n1")
        assert ledger is not None
        path = f"/api/tenant/shares?namespace=ml&node={ledger.node.cards[0].uuid}"
        found = await call(app, "GET", path)
        await asyncio.sleep(1.5 * PAUSE)
        return found, await call(app, "GET", f"{path}x")

    found, other = run(work())

    assert found is not None
    assert other is not None
    assert ([each["pod"] for each in found.json["shares"]], other.status) == (["mine"], 404)


def test_a_pod_that_shares_its_card_counts_the_pods_of_others() -> None:
    (got,) = asked("explain?namespace=ml&pod=mine")

    assert got.json["well"] is True
    assert got.json["lines"][0] == "ml/mine (volcano) is bound to n1 and has its cards"
    assert got.json["lines"][-1].endswith("; shared with 1 of other namespaces")


def test_a_pod_that_waits_has_its_reason() -> None:
    pending, explained = asked("pending?namespace=ml", "explain?namespace=ml&pod=mine-waits")

    (row,) = pending.json["pending"]
    assert pending.json["created"] == {"mine-waits": CREATED}
    assert (row["pod"], row["request"]) == ("mine-waits", "1 card: 87.9 GiB")
    assert "memory" in row["reason"]
    assert explained.json["well"] is False
    assert any("memory" in line for line in explained.json["lines"])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"explain?namespace=ml&pod={OTHER}-model", 404),
        (f"explain?namespace=ml&pod=../{OTHER}/pods/{OTHER}-model", 404),
        (f"explain?namespace=ml&pod={OTHER}/{OTHER}-model", 404),
        (f"explain?namespace=ml/../{OTHER}&pod={OTHER}-model", 400),
        (f"explain?namespace=ml&namespace={OTHER}%2F&pod=x", 400),
        ("explain?namespace=ml&pod=", 404),
        ("pods", 400),
        ("pods?namespace=*", 400),
        ("pods?namespace=m", 200),  # the begin of a name is another namespace
        ("shares?namespace=ml&node=", 404),
        ("shares?namespace=ml&node=n1&card=7", 404),
        ("other?namespace=ml", 404),
    ],
)
def test_what_is_not_of_the_namespace_is_not_there(path: str, status: int) -> None:
    (got,) = asked(path)

    assert got.status == status
    if got.status == 200:
        assert got.json == {}


def test_a_namespace_has_one_question_at_a_time_and_then_a_pause() -> None:
    async def work() -> list[tuple[int, bytes]]:
        _, app = await a_shared_card()
        path = "/api/tenant/explain?namespace={}&pod=mine"
        got = [await call(app, "GET", path.format(each)) for each in ("ml", "ml", "other")]
        got.append(await call(app, "GET", "/api/tenant/pods?namespace=ml"))
        await asyncio.sleep(1.5 * PAUSE)
        got.append(await call(app, "GET", path.format("ml")))
        return [
            (each.status, each.headers.get(b"retry-after", b"")) for each in got if each is not None
        ]

    assert run(work()) == [(200, b""), (429, b"1"), (404, b""), (429, b"1"), (200, b"")]


def test_with_reviews_every_question_of_people_needs_a_token(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("store: memory")
    seen: list[tuple[str, str]] = []

    async def review(token: str, namespace: str) -> bool | None:
        seen.append((token, namespace))
        return namespace == "ml"

    async def work() -> dict[str, int]:
        table, log = LocalCluster(), logger("error", "json")
        cluster = Cluster(binder=table, pods=table, events=table, review=review)
        settings = read(tmp_path / "settings.yaml", {})
        runtime = ServiceRuntime(settings, {}, MemoryStore(), cluster, log)
        await runtime.load()
        app = runtime.app({})
        found: dict[str, int] = {}
        for method, path in app._routes:
            got = await call(app, method, f"{path}?namespace=ml")
            assert got is not None
            found[path] = got.status
            if path.startswith("/api/"):
                bearer = (b"authorization", b"Bearer good")
                got = await call(app, method, f"{path}?namespace=ml", headers=[bearer])
                assert got is not None
                is_tenants = path.startswith("/api/tenant/")
                assert (got.status in (200, 404)) if is_tenants else got.status == 403, path
                await asyncio.sleep(1.5 * PAUSE if is_tenants else 0)
        return found

    statuses = run(work())

    assert {path for path, status in statuses.items() if status == 401} == {
        path for path in statuses if path.startswith("/api/")
    }
    assert len([path for path in statuses if path.startswith("/api/dashboard/")]) > 5
    assert {namespace for _, namespace in seen} == {"", "ml"}
