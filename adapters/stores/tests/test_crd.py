"""The NodeLedger kind, as a real API server shows it."""

import asyncio
import copy
import http.client
import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from msgspec import inspect

from adapters.stores.kubernetes import COLLECTION
from adapters.stores.tests.in_cluster import InCluster
from adapters.tests.waiting import until
from adapters.wire.records.ledger import LedgerRecord, LedgerRecordError, encode
from adapters.wire.tests.ledgers import a_full_ledger, a_rich_ledger
from core.ledger.node_ledger import NodeLedger

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeledgers.dragoman.dev"


def write(cluster: Any, ledger: NodeLedger) -> None:
    async def run() -> None:
        place = InCluster(cluster.kubeconfig("admin", "system:masters"))
        async with place.open() as store:
            await store.write(ledger, None)

    cluster.api.delete(COLLECTION)
    asyncio.run(run())


def table(cluster: Any) -> dict[str, Any]:
    """The table that the API server sends to ``kubectl get -o wide``."""
    connection = http.client.HTTPSConnection(
        "127.0.0.1", cluster.server_port, context=cluster.api.context, timeout=30
    )
    accept = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    connection.request("GET", COLLECTION, headers=accept)
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def test_a_person_sees_cards_pods_and_memory_of_each_node(cluster: Any) -> None:
    write(cluster, a_full_ledger())

    shown = table(cluster)

    names = [column["name"] for column in shown["columnDefinitions"]]
    (row,) = shown["rows"]
    cells = dict(zip(names, row["cells"], strict=True))
    assert cells.pop("Age")
    assert cells == {
        "Name": "gpu-worker-0001.cluster.internal",
        "Cards": 8,
        "Healthy": 8,
        "Pods": 80,
        "Memory": "640 of 640 GiB",
        "Isolation": None,
        "Changes": 80,
    }


def test_the_kind_has_a_short_name(cluster: Any) -> None:
    found = cluster.api.get("/apis/dragoman.dev/v1alpha1")["resources"]

    kind, status = sorted(found, key=lambda resource: str(resource["name"]))
    assert (kind["name"], status["name"]) == ("nodeledgers", "nodeledgers/status")
    assert kind["shortNames"] == ["nl"]
    assert kind["namespaced"] is False


def test_the_server_adds_little_to_the_record_of_a_full_node(cluster: Any) -> None:
    write(cluster, a_full_ledger())

    (stored,) = cluster.api.get(COLLECTION)["items"]

    record, whole = len(encode(a_full_ledger())), len(json.dumps(stored, separators=(",", ":")))
    print(f"record {record} bytes, object {whole} bytes")  # noqa: T201
    assert whole < record + 2000


def test_the_server_does_not_keep_who_wrote_which_field_of_a_record(cluster: Any) -> None:
    async def run() -> None:
        place = InCluster(cluster.kubeconfig("admin", "system:masters"))
        async with place.open() as store:
            ledger = a_full_ledger()
            created = await store.write(ledger, None)
            await store.write(ledger.release(next(iter(ledger.allocations))), created)

    cluster.api.delete(COLLECTION)
    asyncio.run(run())

    (stored,) = cluster.api.get(COLLECTION)["items"]
    assert "managedFields" not in stored["metadata"]

    patched = cluster.api.merge(
        f"{COLLECTION}/{stored['metadata']['name']}/status", {"status": {"isolation": "x"}}
    )
    assert "managedFields" not in patched["metadata"]


def test_what_a_stranger_writes_into_a_list_makes_the_record_unreadable(cluster: Any) -> None:
    write(cluster, a_rich_ledger())

    async def run() -> str:
        place = InCluster(cluster.kubeconfig("admin", "system:masters"))
        async with place.open() as store:
            record = {**json.loads(encode(a_rich_ledger())), "allocations": "none"}
            await place.spoil("n", json.dumps(record).encode())
            with pytest.raises(LedgerRecordError) as refusal:
                await store.read("n")
            assert await store.load() == {}
            return str(refusal.value)

    assert asyncio.run(run()).endswith('`$.allocations` is "none"')


def test_ledgers_stay_as_they_are_under_the_definition_of_an_earlier_version(cluster: Any) -> None:
    """It gave each field of each entry a schema: from it, and back to it, nothing is lost."""
    ours = cluster.api.get(DEFINITION)
    earlier = copy.deepcopy(ours)
    properties = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"] = typed(inspect.type_info(LedgerRecord))
    ledger = a_rich_ledger()

    async def run() -> None:
        place = InCluster(cluster.kubeconfig("admin", "system:masters"))
        async with place.open() as store:
            version = ""
            for definition, is_ours in ((earlier, False), (ours, True), (earlier, False)):
                define(cluster, definition)
                await until(partial(is_in_use, cluster, is_ours=is_ours))
                if not version:
                    version = await store.write(ledger, None)
                found = await store.read("n")
                assert found is not None
                assert found.ledger == ledger
                version = await store.write(ledger, found.version)

    cluster.api.delete(COLLECTION)
    try:
        asyncio.run(run())
    finally:
        define(cluster, ours)


def define(cluster: Any, definition: dict[str, Any]) -> None:
    cluster.api.merge(DEFINITION, {"spec": {"versions": definition["spec"]["versions"]}})


def is_in_use(cluster: Any, *, is_ours: bool) -> bool:
    """Whether the server takes an allocation that is no object by our definition alone."""
    body = {"metadata": {"name": "other"}, "spec": {"node": "other", "allocations": [5]}}
    kind = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "NodeLedger"}
    with suppress(RuntimeError):
        cluster.api.create(COLLECTION, kind | body)
        cluster.api.delete(f"{COLLECTION}/other")
        return is_ours
    return not is_ours


def typed(kind: inspect.Type) -> dict[str, Any]:
    """A schema as earlier versions had it: of every field, as deep as they go."""
    match kind:
        case inspect.StructType(fields=fields):
            return {
                "type": "object",
                "required": [each.encode_name for each in fields if each.required],
                "properties": {each.encode_name: typed(each.type) for each in fields},
            }
        case inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": typed(item)}
        case inspect.DictType(value_type=value):
            return {"type": "object", "additionalProperties": typed(value)}
        case inspect.UnionType(types=types):
            (one,) = [each for each in types if not isinstance(each, inspect.NoneType)]
            return typed(one)
        case inspect.IntType():
            return {"type": "integer", "format": "int64"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case _:
            return {"type": "string"}
