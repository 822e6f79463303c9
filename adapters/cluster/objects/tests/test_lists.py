"""Lists by pages, to their end."""

import asyncio

import pytest

from adapters.cluster.api.client import list_all
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import DEVICES, PODS, Selection
from adapters.cluster.tests.server import Server, Step, client, ok, refusal, serving
from adapters.wire.kube import Pod


def page(*names: str, after: str = "") -> dict[str, object]:
    return {
        "metadata": {"resourceVersion": "1", "continue": after},
        "items": [{"metadata": {"name": name}} for name in names],
    }


GONE = refusal(410, {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


def listed(*steps: Step, optional: bool = False) -> tuple[list[str], list[int], Server]:
    """Names, the counts that were reported, and the server with its requests."""
    counts: list[int] = []

    async def run() -> tuple[list[str], Server]:
        async with serving(*steps) as server, client(server) as api:
            selection = Selection(DEVICES if optional else PODS, optional=optional)
            pods = await list_all(api, selection, Pod, page=2, listed=counts.append)
            return [pod.metadata.name for pod in pods], server

    names, server = asyncio.run(run())
    return names, counts, server


def test_every_page_is_read_and_counted() -> None:
    names, counts, server = listed(ok(page("a", "b", after="next")), ok(page("c")))

    assert names == ["a", "b", "c"]
    assert counts == [2, 3]
    assert [request.query for request in server.requests] == [
        {"limit": "2"},
        {"limit": "2", "continue": "next"},
    ]


def test_an_expired_list_begins_again_with_larger_pages() -> None:
    names, _, server = listed(ok(page("a", "b", after="next")), GONE, ok(page("a", "b", "c")))

    assert names == ["a", "b", "c"]
    assert server.requests[-1].query == {"limit": "8"}


def test_a_list_that_always_expires_is_an_error() -> None:
    with pytest.raises(ClusterError, match="too old"):
        listed(GONE)


def test_an_optional_kind_that_the_server_does_not_know_is_empty() -> None:
    names, _, _ = listed(refusal(404), optional=True)

    assert names == []


def test_a_required_kind_that_the_server_does_not_know_is_an_error() -> None:
    with pytest.raises(ClusterError, match="404"):
        listed(refusal(404))


def test_an_object_that_cannot_be_decoded_is_an_error() -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        listed(ok({"metadata": {}, "items": [{"metadata": {"name": 3}}]}))
