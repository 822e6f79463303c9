"""Namespaces and bare nodes for the length of a block, on a shared cluster."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.processes.waiting import within

NOT_FOUND = 404


@contextmanager
def namespace(api: Api, name: str, labels: Mapping[str, str] | None = None) -> Iterator[str]:
    """A namespace in which pods can be created; its path. Deleted when the block ends."""
    path = f"/api/v1/namespaces/{name}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": dict(labels or {})}})
    try:
        within(20, partial(_exists, api, f"{path}/serviceaccounts/default"))
        yield path
    finally:
        # No kubelet confirms the end of a pod on a bare node.
        api.delete(f"{path}/pods?gracePeriodSeconds=0")
        api.delete(path)
        within(60, lambda: not _exists(api, path))


@contextmanager
def bare_node(api: Api, name: str) -> Iterator[str]:
    """A node object without a kubelet; its path. No scheduler uses it: it is never ready."""
    amounts = {"cpu": "4", "pods": "110"}
    node: Object = {"metadata": {"name": name}, "status": {"capacity": amounts}}
    api.create("/api/v1/nodes", node)
    try:
        yield f"/api/v1/nodes/{name}"
    finally:
        api.delete(f"/api/v1/nodes/{name}")


def _exists(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True
