"""Bodies that kube-scheduler sends, and what they change."""

from adapters.service.tests.builders import (
    Bench,
    Json,
    body,
)


def names(pod: Json, *nodes: str) -> bytes:
    return body({"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})


def bind(pod: str, node: str, uid: str | None = None) -> bytes:
    return body(
        {"PodName": pod, "PodNamespace": "default", "PodUID": uid or f"uid-{pod}", "Node": node}
    )


def used(bench: Bench, node: str) -> list[str]:
    return list(bench.service.ledgers.inventory.ledger(node).allocations)
