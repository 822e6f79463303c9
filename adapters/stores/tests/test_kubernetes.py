"""What only the Kubernetes store has to get right; without a server."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.transport import Query
from adapters.cluster.watch.object_tracker import EventHandler, Identity
from adapters.stores.kubernetes import COLLECTION, KubernetesStore
from adapters.stores.store import Change, Conflict, StoreError
from adapters.stores.tests.ledgers import a_ledger
from adapters.tests.waiting import until
from adapters.wire.kube import Unreadable
from adapters.wire.records.allocation import AllocationRecord, GrantRecord, SliceRecord
from adapters.wire.records.hardware import DeviceHolding, HardwareRecord, ProblemRecord
from adapters.wire.records.ledger import (
    CardCountRecord,
    CardRecord,
    GeometryRecord,
    KeptPlaceRecord,
    LayoutRecord,
    LedgerObject,
    LedgerRecord,
    MeterRecord,
    PartitionRecord,
    ScopeRecord,
    TotalRecord,
)
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import AllocationState
from core.tests.builders import a_grant, held

CRD = Path(__file__).parents[3] / "configs/crd/nodeledgers.yaml"


def refusal(status: int) -> ClusterError:
    return ClusterError(status, "Refused", "refused")


@dataclass
class FakeServer(KubeClient):
    """An API server with one kind; ``twice`` makes it lose the answer to a write, so that the
    client sends it again."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 0
    twice: bool = False
    fails: int = 0
    calls: list[str] = field(default_factory=list)

    async def get(self, path: str, query: Query | None = None) -> bytes:
        del query
        self._answer("get")
        return self._found(path)

    async def create(
        self,
        path: str,
        body: object,
        query: Query | None = None,
        *,
        metadata_only: bool = False,
        repeat_refused: bool = True,
    ) -> bytes:
        del query, repeat_refused
        assert metadata_only
        assert isinstance(body, bytes)
        self._answer("create")
        assert path == COLLECTION
        name = f"{path}/{json.loads(body)['metadata']['name']}"
        if name in self.objects:
            raise refusal(409)
        return _metadata_of(self._put(name, body))

    async def replace(
        self, path: str, body: object, query: Query | None = None, *, metadata_only: bool = False
    ) -> bytes:
        del query
        assert metadata_only
        assert isinstance(body, bytes)
        self._answer("replace")
        answer = self._replace(path, body)
        return _metadata_of(self._replace(path, body) if self.twice else answer)

    async def delete(self, path: str, body: object = None) -> bytes:
        assert isinstance(body, bytes)
        self._answer("delete")
        there = json.loads(self._found(path))
        if json.loads(body)["preconditions"] != {
            "resourceVersion": there["metadata"]["resourceVersion"]
        }:
            raise refusal(409)
        del self.objects[path]
        return b"{}"

    def _replace(self, path: str, body: bytes) -> bytes:
        there = json.loads(self._found(path))["metadata"]["resourceVersion"]
        if json.loads(body)["metadata"]["resourceVersion"] != there:
            raise refusal(409)
        return self._put(path, body)

    def _put(self, path: str, body: bytes) -> bytes:
        self.version += 1
        new = json.loads(body)
        new["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = new
        return self._found(path)

    def _found(self, path: str) -> bytes:
        if path not in self.objects:
            raise refusal(404)
        return json.dumps(self.objects[path]).encode()

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if self.fails:
            raise refusal(self.fails)


def _metadata_of(answer: bytes) -> bytes:
    metadata = json.loads(answer)["metadata"]
    return json.dumps({"kind": "PartialObjectMetadata", "metadata": metadata}).encode()


async def never(_: EventHandler[LedgerObject]) -> None:
    await asyncio.Event().wait()


def a_store(server: FakeServer) -> KubernetesStore:
    return KubernetesStore(server, never)


def test_a_write_is_one_request() -> None:
    server = FakeServer()

    async def run() -> None:
        store = a_store(server)
        version = await store.write(a_ledger(), None)
        await store.write(a_ledger(pods=1), version)

    asyncio.run(run())
    assert server.calls == ["create", "replace"]


def test_a_write_that_was_sent_twice_knows_that_it_was_its_own() -> None:
    server = FakeServer()

    async def run() -> None:
        store = a_store(server)
        version = await store.write(a_ledger(), None)
        server.twice = True
        again = await store.write(a_ledger(pods=1), version)

        stored = await store.read("n")
        assert stored is not None
        assert stored.version == again != version

    asyncio.run(run())


def test_the_same_record_of_another_writer_is_a_conflict() -> None:
    server = FakeServer()

    async def run() -> None:
        one, other = a_store(server), a_store(server)
        version = await one.write(a_ledger(), None)
        await other.write(a_ledger(pods=1), version)
        with pytest.raises(Conflict):
            await one.write(a_ledger(pods=1), version)

    asyncio.run(run())


@pytest.mark.parametrize("status", [0, 403, 422, 429, 500, 504])
def test_an_answer_that_says_nothing_of_the_version_is_an_error(status: int) -> None:
    server = FakeServer()

    async def refused(call: Callable[[], Awaitable[object]]) -> str:
        with pytest.raises(StoreError) as error:
            await call()
        return str(error.value)

    async def run() -> list[str]:
        store = a_store(server)
        version = await store.write(a_ledger(), None)
        server.fails = status or 599
        return [
            await refused(lambda: store.read("n")),
            await refused(lambda: store.write(a_ledger(), None)),
            await refused(lambda: store.write(a_ledger(), version)),
            await refused(lambda: store.delete("n", version)),
        ]

    assert all("the ledger of n" in text for text in asyncio.run(run()))


def test_a_server_that_does_not_know_ledgers_is_an_error_and_no_conflict() -> None:
    server = FakeServer(fails=404)

    async def run() -> None:
        with pytest.raises(StoreError, match="404"):
            await a_store(server).write(a_ledger(), None)

    asyncio.run(run())


def test_an_answer_that_cannot_be_read_is_an_error() -> None:
    server = FakeServer()
    server.objects[f"{COLLECTION}/n"] = {"metadata": {"name": "n"}}

    async def run() -> None:
        with pytest.raises(StoreError, match="cannot be read"):
            await a_store(server).read("n")

    asyncio.run(run())


def test_load_fails_with_the_error_of_the_watch() -> None:
    async def fails(_: EventHandler[LedgerObject]) -> None:
        raise ValueError("no more")

    async def run() -> None:
        store = KubernetesStore(FakeServer(), fails)
        with pytest.raises(StoreError) as error:
            await store.load()
        assert isinstance(error.value.__cause__, ValueError)
        await store.close()

    asyncio.run(run())


def test_an_object_that_the_watch_cannot_decode_is_a_change_with_a_problem() -> None:
    async def follow(sink: EventHandler[LedgerObject]) -> None:
        sink.on_unreadable(Unreadable("", "early", ""), "no spec")
        sink.on_synced()
        sink.on_unreadable(Unreadable("", "late", ""), "no spec")
        await asyncio.Event().wait()

    async def run() -> list[Change]:
        store = KubernetesStore(FakeServer(), follow)
        assert await store.load() == {}
        async with aclosing(store.changes()) as changes:
            seen = [await anext(changes), await anext(changes)]
        await store.close()
        return seen

    assert asyncio.run(run()) == [
        Change("early", None, "no spec"),
        Change("late", None, "no spec"),
    ]


def test_a_change_that_this_process_wrote_is_not_decoded_again() -> None:
    server = FakeServer()
    sinks: list[EventHandler[LedgerObject]] = []

    def follow(sink: EventHandler[LedgerObject]) -> Coroutine[object, object, None]:
        sinks.append(sink)
        sink.on_synced()
        return never(sink)

    def send_update() -> None:
        (path,) = server.objects
        sinks[-1].on_update(msgspec.json.decode(server._found(path), type=LedgerObject))

    async def run() -> None:
        store, other = KubernetesStore(server, follow), a_store(server)
        await store.load()
        own = a_ledger(pods=1)
        held_too = a_ledger().reserve(
            replace(held(a_grant("c0"), uid="p0"), state=AllocationState.RESERVED)
        )
        async with aclosing(store.changes()) as changes:
            first = await store.write(own, None)
            send_update()
            stored = (await anext(changes)).stored
            assert stored is not None
            assert stored.ledger is own

            second = await store.write(held_too, first)
            send_update()
            stored = (await anext(changes)).stored
            assert stored is not None
            assert not stored.ledger.allocations

            await other.write(own, second)
            send_update()
            stored = (await anext(changes)).stored
            assert stored is not None
            assert stored.ledger is not own
            assert stored.ledger == own

    asyncio.run(run())


def test_an_allocation_of_another_writer_is_decoded_once_until_the_record_is_deleted() -> None:
    server = FakeServer()
    sinks: list[EventHandler[LedgerObject]] = []

    def follow(sink: EventHandler[LedgerObject]) -> Coroutine[object, object, None]:
        sinks.append(sink)
        sink.on_synced()
        return never(sink)

    async def run() -> None:
        store, other = KubernetesStore(server, follow), a_store(server)
        await store.load()
        version: str | None = None
        seen: list[NodeLedger] = []

        async with aclosing(store.changes()) as changes:
            for pods in (1, 2, 0, 1):
                if not pods:
                    server.objects.clear()
                    version = None
                    sinks[-1].on_delete(Identity("", "n", ""))
                    assert (await anext(changes)).stored is None
                    continue
                version = await other.write(a_ledger(pods=pods), version)
                (path,) = server.objects
                found = msgspec.json.decode(server._found(path), type=LedgerObject)
                sinks[-1].on_update(found)
                while (stored := (await anext(changes)).stored) is None:
                    pass  # the deletion comes again before the record that replaces it
                assert stored.ledger == a_ledger(pods=pods)
                seen.append(stored.ledger)

        first, second, third = (ledger.allocations["p0"] for ledger in seen)
        assert second is first
        assert third is not first

    asyncio.run(run())


def test_changes_without_a_load_begin_with_all_that_there_is() -> None:
    started: list[EventHandler[LedgerObject]] = []

    def follow(sink: EventHandler[LedgerObject]) -> Coroutine[object, object, None]:
        started.append(sink)
        return never(sink)

    async def run() -> None:
        store = KubernetesStore(FakeServer(), follow)
        async with aclosing(store.changes()) as changes:
            waiting = asyncio.create_task(anext(changes))
            await until(lambda: started)
            await store.close()
            await asyncio.wait([waiting])

    asyncio.run(run())
    assert len(started) == 1


def test_the_schema_knows_every_field_of_the_record_and_looks_into_no_list() -> None:
    schema = properties()

    assert shape(schema["spec"]) == shape_of(LedgerRecord)
    assert shape(schema["status"]) == shape_of(HardwareRecord)


def test_the_description_of_a_list_names_every_field_of_its_entries() -> None:
    """``kubectl explain`` shows nothing else of them."""
    lists: dict[str, tuple[type, ...]] = {
        "cards": (CardRecord, ScopeRecord),
        "geometries": (GeometryRecord, LayoutRecord, SliceRecord),
        "partitions": (PartitionRecord,),
        "losses": (CardCountRecord,),
        "gains": (CardCountRecord,),
        "allocations": (AllocationRecord, GrantRecord),
        "holds": (KeptPlaceRecord,),
    }
    spec, status = properties()["spec"]["properties"], properties()["status"]["properties"]
    described = [
        (spec[name]["description"], kind) for name, kinds in lists.items() for kind in kinds
    ]
    described.append((spec["meter"]["description"], MeterRecord))
    described.append((spec["meter"]["description"], TotalRecord))
    described.append((status["problems"]["description"], ProblemRecord))
    described.append((status["holdings"]["description"], DeviceHolding))

    for text, kind in described:
        fields = msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
        missing = {each.encode_name for each in fields} - {*re.findall(r"\w+", text)}
        assert missing <= {"name"}, kind


def properties() -> Any:
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]


def shape(schema: dict[str, Any]) -> object:
    """The names of a schema's fields and their types, as deep as they go."""
    match schema.get("type"):
        case None:
            assert schema["x-kubernetes-preserve-unknown-fields"]
            return "anything"
        case "object" if "additionalProperties" in schema:
            return {"*": shape(schema["additionalProperties"])}
        case "object":
            return {name: shape(field) for name, field in schema["properties"].items()}
        case plain:
            return plain


def shape_of(kind: Any) -> object:
    """The shape of a type of ours, without that of its lists."""
    match msgspec.inspect.type_info(kind):
        case msgspec.inspect.StructType(fields=found):
            return {each.encode_name: of_type(each.type) for each in found}
        case other:
            return of_type(other)


def of_type(kind: msgspec.inspect.Type) -> object:
    match kind:
        case msgspec.inspect.StructType(cls=cls):
            return "anything" if cls is MeterRecord else shape_of(cls)
        case msgspec.inspect.VarTupleType():
            return "anything"
        case msgspec.inspect.DictType(value_type=value):
            return {"*": of_type(value)}
        case msgspec.inspect.UnionType(types=types):
            (one,) = [each for each in types if not isinstance(each, msgspec.inspect.NoneType)]
            return of_type(one)
        case msgspec.inspect.IntType():
            return "integer"
        case msgspec.inspect.BoolType():
            return "boolean"
        case msgspec.inspect.StrType():
            return "string"
        case other:
            raise TypeError(other)
