"""One Secret and the webhook configurations, against a server that answers as it is told to."""

import asyncio
from base64 import b64decode, b64encode

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.secret import SecretClient, SecretContent
from adapters.cluster.objects.webhooks import WebhookClient
from adapters.cluster.tests.server import Request, Step, client, ok, refusal, serving

STATUS = {"kind": "Status", "code": 404, "reason": "NotFound"}


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_a_secrets_texts_are_read_and_the_rest_is_left_out() -> None:
    data = {"a": encoded("text"), "b": "???", "c": b64encode(b"\xff").decode()}
    secret = {"metadata": {"name": "s", "resourceVersion": "7"}, "data": data}

    async def main() -> SecretContent:
        async with serving(ok(secret)) as server, client(server) as api:
            return await SecretClient(api).get("ns", "s")

    assert asyncio.run(main()) == SecretContent({"a": "text"}, "7", {})


def test_a_secret_that_is_not_there_is_told_with_who_makes_it() -> None:
    async def main() -> None:
        async with serving(refusal(404, STATUS)) as server, client(server) as api:
            with pytest.raises(ClusterError, match="ns/s: the chart makes it"):
                await SecretClient(api).get("ns", "s")

    asyncio.run(main())


def test_a_change_names_the_version_and_what_goes() -> None:
    async def main() -> Request:
        async with serving(ok({})) as server, client(server) as api:
            await SecretClient(api).change("ns", "s", "7", {"a": "x", "b": None}, {"wish": None})
            return server.requests[0]

    asked = asyncio.run(main())

    assert (asked.method, asked.path) == ("PATCH", "/api/v1/namespaces/ns/secrets/s")
    assert asked.json() == {
        "metadata": {"resourceVersion": "7", "annotations": {"wish": None}},
        "data": {"a": encoded("x"), "b": None},
    }


def published(*steps: Step) -> tuple[bool, list[Request]]:
    async def main() -> tuple[bool, list[Request]]:
        async with serving(*steps) as server, client(server) as api:
            told = await WebhookClient(api, ["dragoman"]).publish("PEM")
            return told, server.requests

    return asyncio.run(main())


def configuration(*bundles: str) -> dict[str, object]:
    hooks = [{"name": f"h{n}", "clientConfig": {"caBundle": b}} for n, b in enumerate(bundles)]
    return {"metadata": {"name": "dragoman", "resourceVersion": "7"}, "webhooks": hooks}


def test_all_webhooks_of_a_configuration_get_the_bundle_in_one_write_by_version() -> None:
    told, (_, write) = published(ok(configuration(encoded("PEM"), "")), ok({}))

    assert not told
    assert write.method == "PUT"
    body = write.json()
    assert body["metadata"] == {"name": "dragoman", "resourceVersion": "7"}
    hooks = body["webhooks"]
    assert isinstance(hooks, list)
    assert [b64decode(hook["clientConfig"]["caBundle"]) for hook in hooks] == [b"PEM", b"PEM"]


def test_a_configuration_that_has_it_is_left_alone_and_one_that_is_not_there_too() -> None:
    told, requests = published(ok(configuration(encoded("PEM"))))
    assert (told, len(requests)) == (True, 1)

    told, requests = published(refusal(404, STATUS))
    assert (told, len(requests)) == (True, 1)


def test_a_configuration_that_is_none_is_told() -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        published(ok({"webhooks": [{}]}))
