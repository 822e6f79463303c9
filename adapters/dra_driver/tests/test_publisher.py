"""The publisher against a server that keeps slices as the API server does."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from adapters.dra_driver import publisher as publishing
from adapters.dra_driver.devices import Json, card_devices
from adapters.dra_driver.publisher import SlicePublisher
from adapters.dra_driver.slice_server import UnsupportedClusterError
from adapters.dra_driver.slices import DevicePool, pools
from adapters.dra_driver.tests.cards import card, mig_card
from adapters.tests.waiting import until
from core.hardware.card import Card


@dataclass(slots=True)
class Server:
    """Keeps slices with versions, and sends their changes.

    Attributes:
        drops: fields of devices that it drops without a word.
        failures: writes that fail before one succeeds.
    """

    drops: frozenset[str] = frozenset()
    failures: int = 0
    node: str = "n1"
    items: dict[str, Json] = field(default_factory=dict[str, Json])
    events: asyncio.Queue[tuple[str, Json]] = field(default_factory=asyncio.Queue[tuple[str, Json]])
    version: int = 0

    async def list(self) -> tuple[list[Json], str]:
        return list(self.items.values()), str(self.version)

    async def changes(self, version: str) -> AsyncGenerator[tuple[str, Json], None]:
        assert version.isdecimal()
        while True:
            yield await self.events.get()

    async def node_uid(self) -> str:
        return "uid-of-node"

    async def create(self, item: Json) -> Json:
        assert item["metadata"]["name"] not in self.items
        return self._store("ADDED", item)

    async def replace(self, item: Json) -> Json:
        present = self.items[item["metadata"]["name"]]
        assert item["metadata"]["resourceVersion"] == present["metadata"]["resourceVersion"]
        return self._store("MODIFIED", item)

    async def delete(self, name: str) -> None:
        self.version += 1
        found = self.items.pop(name, None)
        if found is not None:
            metadata = {**found["metadata"], "resourceVersion": str(self.version)}
            self.events.put_nowait(("DELETED", {**found, "metadata": metadata}))

    def _store(self, kind: str, item: Json) -> Json:
        if self.failures:
            self.failures -= 1
            raise OSError("the server is not there")
        found: Json = json.loads(json.dumps(item))
        for device in found["spec"].get("devices", ()):
            for name in self.drops:
                device.pop(name, None)
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        self.items[found["metadata"]["name"]] = found
        self.events.put_nowait((kind, found))
        return found

    def generations(self) -> set[int]:
        return {each["spec"]["pool"]["generation"] for each in self.items.values()}


def desired(*cards: Card) -> tuple[DevicePool, ...]:
    return pools("n1", [found for each in cards if (found := card_devices(each))])


def run(
    server: Server,
    wanted: Callable[[], tuple[DevicePool, ...] | None],
    steps: Callable[[SlicePublisher], Coroutine[Any, Any, None]],
) -> None:
    async def scenario() -> None:
        publisher = SlicePublisher(server, wanted)
        task = asyncio.ensure_future(publisher.run())
        try:
            await steps(publisher)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MIN_DELAY", 0.01)


def test_the_pools_are_published_once() -> None:
    server = Server()

    async def steps(publisher: SlicePublisher) -> None:
        await until(lambda: len(server.items) == 3)
        version = server.version
        for _ in range(3):
            publisher.wake()
            await asyncio.sleep(0)
        await until(server.events.empty)
        assert server.version == version

    run(server, lambda: desired(card(0), mig_card(1)), steps)

    assert server.generations() == {1}


def test_slices_that_the_kubelet_deleted_are_created_again() -> None:
    server = Server()

    async def steps(publisher: SlicePublisher) -> None:
        await until(lambda: server.items)
        (name,) = server.items
        await server.delete(name)
        await until(lambda: name in server.items)
        publisher.wake()

    run(server, lambda: desired(card(0)), steps)


def test_a_slice_that_another_client_changed_is_restored() -> None:
    server = Server()

    async def steps(_: SlicePublisher) -> None:
        await until(lambda: server.items)
        (item,) = server.items.values()
        changed = json.loads(json.dumps(item))
        changed["spec"]["devices"] = []
        await server.replace(changed)
        await until(lambda: next(iter(server.items.values()))["spec"]["devices"])

    run(server, lambda: desired(card(0)), steps)

    assert server.generations() == {2}


def test_another_inventory_is_a_newer_generation_and_a_pool_that_is_gone_is_deleted() -> None:
    server, cards = Server(), [card(0), mig_card(1)]

    async def steps(publisher: SlicePublisher) -> None:
        await until(lambda: len(server.items) == 3)
        cards[:] = [card(0), card(1)]
        publisher.wake()
        await until(lambda: len(server.items) == 1 and server.generations() == {2})

    run(server, lambda: desired(*cards), steps)

    (item,) = server.items.values()
    assert [each["name"] for each in item["spec"]["devices"]] == ["gpu-0", "gpu-1"]


def test_slices_of_an_earlier_process_are_replaced_by_a_newer_generation() -> None:
    server = Server()

    async def steps(_: SlicePublisher) -> None:
        await until(lambda: server.generations() == {1})

    async def again(_: SlicePublisher) -> None:
        await until(lambda: server.generations() == {2})

    run(server, lambda: desired(card(0)), steps)
    run(server, lambda: desired(card(0), card(1)), again)


def test_a_write_that_failed_is_repeated() -> None:
    server = Server(failures=2)

    async def steps(_: SlicePublisher) -> None:
        await until(lambda: server.items)

    run(server, lambda: desired(card(0)), steps)

    assert server.failures == 0, "both failures came before the write that succeeded"


def test_nothing_is_written_before_the_cards_are_known() -> None:
    server, known = Server(), list[Card]()

    async def steps(publisher: SlicePublisher) -> None:
        publisher.wake()
        await asyncio.sleep(0.02)
        assert not server.items
        known.append(card(0))
        publisher.wake()
        await until(lambda: server.items)

    run(server, lambda: desired(*known) if known else None, steps)


@pytest.mark.parametrize("field", ["allowMultipleAllocations", "capacity", "taints"])
def test_a_server_that_drops_a_field_gets_nothing(field: str) -> None:
    unhealthy = replace(card(0), healthy=False)
    server = Server(drops=frozenset({field}))

    publisher = SlicePublisher(server, lambda: desired(unhealthy))

    with pytest.raises(UnsupportedClusterError, match=rf"did not store spec.*{field}"):
        asyncio.run(publisher.run())

    assert server.items == {}


def test_every_field_that_a_server_drops_is_named_once() -> None:
    server = Server(drops=frozenset({"allowMultipleAllocations", "capacity"}))
    publisher = SlicePublisher(server, lambda: desired(card(0), card(1)))

    with pytest.raises(UnsupportedClusterError) as refused:
        asyncio.run(publisher.run())

    fields = "spec.devices[].capacity, spec.devices[].allowMultipleAllocations"
    assert f"did not store {fields} of a ResourceSlice" in str(refused.value)
