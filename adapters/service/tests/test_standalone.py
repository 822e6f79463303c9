"""Pods without a cluster, over HTTP."""

import asyncio

from adapters.service.tests.builders import (
    Bench,
    Json,
    a_binding,
    a_pod,
    a_service,
    body,
    review,
    run,
)
from adapters.service.web.tests.calls import (
    Got,
    app_of,
    call,
)


def test_pods_are_created_bound_and_deleted_without_a_cluster() -> None:
    async def work() -> list[Got | None]:
        app = await app_of(await a_service())
        made = await call(app, "POST", "/local/pods", body(a_pod("x")))
        bind = {"PodName": "x", "PodNamespace": "default", "PodUID": "uid-x", "Node": "n1"}
        return [
            made,
            await call(app, "POST", "/extender/bind", body(bind)),
            await call(app, "GET", "/local/pods/default/x"),
            await call(app, "GET", "/local/pods"),
            await call(app, "DELETE", "/local/pods/default/x"),
            await call(app, "GET", "/local/pods/default/x"),
            await call(app, "DELETE", "/local/pods/default/x"),
            await call(app, "POST", "/local/bindings", body(a_binding("x", "n1"))),
            await call(app, "POST", "/local/pods", b"{}"),
        ]

    got = run(work())

    assert [one.status for one in got if one] == [201, 200, 200, 200, 200, 404, 404, 404, 400]
    assert got[4] is not None
    assert got[4].json == {"deleted": "default/x", "freed": ["n1"]}
    assert got[2] is not None
    assert b"null" not in got[2].content


def test_concurrent_clients_over_allocate_nothing() -> None:
    async def work() -> Bench:
        pods = [a_pod(f"p{number}", memory=3000) for number in range(20)]
        bench = await a_service(pods=pods)
        app = await app_of(bench)

        async def kube(pod: Json) -> None:
            meta = pod["metadata"]
            bind = {
                "PodName": meta["name"],
                "PodNamespace": "default",
                "PodUID": meta["uid"],
                "Node": "n1",
            }
            await call(app, "POST", "/extender/bind", body(bind))

        async def volcano(pod: Json) -> None:
            request = review(a_binding(pod["metadata"]["name"], "n1"), sub="binding")
            await call(app, "POST", "/admission/bindings", request)

        work = [kube(pod) if at % 2 else volcano(pod) for at, pod in enumerate(pods)]
        await asyncio.gather(*work)
        return bench

    ledger = run(work()).service.ledgers.inventory.ledger("n1")

    assert len(ledger.allocations) == 4
    assert not ledger.problems()
