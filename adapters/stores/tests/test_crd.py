"""The NodeLedger kind, as a real API server shows it."""

import asyncio
import http.client
import json
from typing import Any

from adapters.stores.kubernetes import COLLECTION
from adapters.stores.tests.in_cluster import InCluster
from adapters.wire.records.ledger import encode
from adapters.wire.tests.ledgers import a_full_ledger
from core.ledger.node_ledger import NodeLedger


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
