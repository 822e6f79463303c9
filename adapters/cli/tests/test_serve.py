"""The service without a cluster obeys its files: ledgers, claims and quotas."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import InputError, Source
from adapters.cli.serve import static_inventory
from adapters.cli.tests.builders import (
    Plain,
    a_claim,
    a_slice,
    ledger_of,
    node,
    pod,
    stream,
    uuid,
    volcano,
    volcano_bound,
)
from adapters.service.main import Composition, without_cluster
from adapters.service.observe.decision_log import logger
from adapters.service.settings import settings as service_settings
from adapters.service.standalone import StaticInventory
from adapters.service.web.app import App
from adapters.service.web.tests.calls import call
from adapters.tests.waiting import until
from core.ledger.node_ledger import NodeLedger

QUOTA: Plain = {
    "apiVersion": "dragoman.dev/v1alpha1",
    "kind": "ShareQuota",
    "metadata": {"name": "quota", "namespace": "default"},
    "spec": {"limits": {"memory": "8000Mi"}},
}


@asynccontextmanager
async def served(*things: Plain, store: str = "memory") -> AsyncIterator[tuple[App, Composition]]:
    found = manifests([Source("things", stream(*things), named=True)])
    async with AsyncExitStack() as stack:
        composition = await without_cluster(
            service_settings.read(None, {"DRAGOMAN_STORE": store}),
            {},
            static_inventory(found),
            logger("error", "json"),
            stack,
        )
        runtime = composition.runtime
        stack.callback(runtime.service.committer.close)
        tasks = [asyncio.ensure_future(task) for task in composition.tasks]
        yield runtime.app(composition.routes), composition
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def bind(app: App, name: str) -> str:
    """Bind a pod of the files; the error, empty where it is bound."""
    shown = await call(app, "GET", f"/local/pods/default/{name}")
    assert shown is not None
    content = {
        "PodName": name,
        "PodNamespace": "default",
        "PodUID": shown.json["metadata"]["uid"],
        "Node": "node-a",
    }
    got = await call(app, "POST", "/extender/bind", json.dumps(content).encode())
    assert got is not None
    text: str = got.json["Error"]
    return text


def ledger_of_service(composition: Composition) -> NodeLedger:
    return composition.runtime.service.ledgers.inventory.ledger("node-a")


def holders(composition: Composition) -> list[str]:
    return sorted(each.pod for each in ledger_of_service(composition).allocations.values())


def bare(thing: Plain) -> Plain:
    """A pod without the record of its cards."""
    return {**thing, "metadata": {**thing["metadata"], "annotations": {}}}


def test_a_node_ledger_says_which_cards_a_pod_has() -> None:
    held = volcano_bound("held", 9000, card=1)
    things = node(), bare(held), ledger_of(node(), held), pod("new", volcano(9000))

    async def work() -> tuple[str, list[str]]:
        async with served(*things) as (app, composition):
            error = await bind(app, "new")
            return error, [
                grant.card
                for each in ledger_of_service(composition).allocations.values()
                for grant in each.grants
            ]

    assert asyncio.run(work()) == ("", [uuid(1), uuid(0)])


def test_a_claim_has_its_card() -> None:
    things = (
        node(cards=2),
        a_slice(uuid(0), uuid(1)),
        a_claim("gpu-0"),
        pod("one", volcano(9000)),
        pod("two", volcano(9000)),
    )

    async def work() -> tuple[str, str, list[str]]:
        async with served(*things) as (app, composition):
            return await bind(app, "one"), await bind(app, "two"), holders(composition)

    first, second, held = asyncio.run(work())
    assert (first, held) == ("", ["default/one", "team/c"])
    assert "1 of 2 cards: held exclusively; 1 of 2 cards: memory 8000 MiB short" in second


def test_a_quota_limits_what_the_pods_of_its_namespace_get() -> None:
    things = (
        QUOTA,
        node(),
        volcano_bound("held", 4000),
        pod("fits", volcano(4000)),
        pod("more", volcano(1000)),
    )

    async def work() -> tuple[str, str, list[str]]:
        async with served(*things) as (app, composition):
            return await bind(app, "fits"), await bind(app, "more"), holders(composition)

    first, second, held = asyncio.run(work())
    assert (first, held) == ("", ["default/fits", "default/held"])
    assert "quota of namespace default: memory 1000 MiB short" in second


def test_a_deleted_pod_gives_its_quota_back() -> None:
    things = QUOTA, node(), volcano_bound("held", 8000), pod("new", volcano(8000))

    async def work() -> tuple[str, str]:
        async with served(*things) as (app, composition):
            refused = await bind(app, "new")
            await call(app, "DELETE", "/local/pods/default/held")
            quotas = composition.runtime.service.quotas
            await until(lambda: not quotas.all()["default"].quota.holds)
            return refused, await bind(app, "new")

    refused, after = asyncio.run(work())
    assert "quota of namespace default" in refused
    assert after == ""


def test_a_quota_counts_what_the_store_has_after_a_restart(tmp_path: Path) -> None:
    things = QUOTA, node(), pod("first", volcano(8000)), pod("second", volcano(1000))
    store = f"sqlite:{tmp_path / 'ledgers.db'}"

    async def work(name: str) -> str:
        async with served(*things, store=store) as (app, _):
            return await bind(app, name)

    assert asyncio.run(work("first")) == ""
    assert "quota of namespace default" in asyncio.run(work("second"))


def test_allocations_of_the_store_stay_and_those_of_the_files_are_added(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'ledgers.db'}"

    async def first() -> str:
        async with served(node(), pod("bound", volcano(1000)), store=store) as (app, _):
            return await bind(app, "bound")

    async def second() -> list[str]:
        async with served(node(), volcano_bound("more", 1000), store=store) as (_, composition):
            return holders(composition)

    assert asyncio.run(first()) == ""
    assert asyncio.run(second()) == ["default/bound", "default/more"]


def inventory(*things: Plain) -> StaticInventory:
    return static_inventory(manifests([Source("things", stream(*things), named=True)]))


def test_a_node_ledger_that_cannot_be_read_is_an_error_with_its_line() -> None:
    damaged = ledger_of(node())
    damaged["spec"]["allocations"] = [{"uid": 5}]

    with pytest.raises(InputError) as caught:
        inventory(node(), damaged)

    assert str(caught.value).startswith("things:2: NodeLedger node-a: ")
    assert "leave it out, and the records on the pods count" in str(caught.value)


def test_what_belongs_to_no_node_of_the_files_is_a_problem() -> None:
    found = inventory(node(), ledger_of(node(name="b"), on="b"), volcano_bound("p", 1, on="c"))

    assert found.problems == (
        "NodeLedger b: no Node has this name, so its allocations are ignored",
        "pod default/p: is bound to c, which is not among the input",
    )
