"""A Secret and the webhook configurations, against a scripted server."""

import asyncio
from base64 import b64decode, b64encode

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.certificates import SecretClient, SecretContent, WebhookClient
from adapters.cluster.tests.server import Request, Step, client, ok, refusal, serving

STATUS = {"kind": "Status", "code": 404, "reason": "NotFound"}


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_the_entries_that_are_text_are_read() -> None:
    data = {"a": encoded("text"), "b": "???", "c": b64encode(b"\xff").decode()}
    secret = {"metadata": {"name": "s", "resourceVersion": "7"}, "data": data}

    async def main() -> SecretContent:
        async with serving(ok(secret)) as server, client(server) as api:
            return await SecretClient(api).get("ns", "s")

    assert asyncio.run(main()) == SecretContent({"a": "text"}, "7", {})


def test_a_missing_secret_is_an_error_that_names_its_creator() -> None:
    async def main() -> None:
        async with serving(refusal(404, STATUS)) as server, client(server) as api:
            with pytest.raises(ClusterError, match="ns/s: the chart creates it"):
                await SecretClient(api).get("ns", "s")

    asyncio.run(main())


def test_a_change_names_the_version_and_the_removed_entries() -> None:
    async def main() -> Request:
        async with serving(ok({})) as server, client(server) as api:
            await SecretClient(api).change("ns", "s", "7", {"a": "x", "b": None}, {"wish": None})
            return server.requests[0]

    request = asyncio.run(main())

    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ns/secrets/s")
    assert request.json() == {
        "metadata": {"resourceVersion": "7", "annotations": {"wish": None}},
        "data": {"a": encoded("x"), "b": None},
    }


def published(*steps: Step) -> tuple[bool, list[Request]]:
    async def main() -> tuple[bool, list[Request]]:
        async with serving(*steps) as server, client(server) as api:
            unchanged = await WebhookClient(api, ["dragoman"]).publish("PEM")
            return unchanged, server.requests

    return asyncio.run(main())


def configuration(*bundles: str) -> dict[str, object]:
    hooks = [{"name": f"h{n}", "clientConfig": {"caBundle": b}} for n, b in enumerate(bundles)]
    return {"metadata": {"name": "dragoman", "resourceVersion": "7"}, "webhooks": hooks}


def test_all_webhooks_of_a_configuration_get_the_bundle_in_one_write_by_version() -> None:
    unchanged, (_, write) = published(ok(configuration(encoded("PEM"), "")), ok({}))

    assert not unchanged
    assert write.method == "PUT"
    body = write.json()
    assert body["metadata"] == {"name": "dragoman", "resourceVersion": "7"}
    hooks = body["webhooks"]
    assert isinstance(hooks, list)
    assert [b64decode(hook["clientConfig"]["caBundle"]) for hook in hooks] == [b"PEM", b"PEM"]


def test_a_configuration_with_the_bundle_and_a_missing_one_are_not_written() -> None:
    unchanged, requests = published(ok(configuration(encoded("PEM"))))
    assert (unchanged, len(requests)) == (True, 1)

    unchanged, requests = published(refusal(404, STATUS))
    assert (unchanged, len(requests)) == (True, 1)


def test_an_invalid_configuration_is_an_error() -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        published(ok({"webhooks": [{}]}))
