"""Reviews of a token: the API server alone says who its owner is and what that user may do."""

import asyncio

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.access import AccessClient
from adapters.cluster.tests.server import Server, Step, client, ok, refusal, serving

USER = {"username": "ann", "uid": "1", "groups": ["team-a"], "extra": {"scopes.x/y": ["z"]}}
KNOWN = ok({"status": {"authenticated": True, "user": USER}})


def ask(*steps: Step) -> tuple[bool | None, Server]:
    async def main() -> tuple[bool | None, Server]:
        async with serving(*steps) as server, client(server) as api:
            return await AccessClient(api).may_list_pods("secret", "ml"), server

    return asyncio.run(main())


@pytest.mark.parametrize("allowed", [True, False])
def test_what_the_user_may_is_asked_with_all_that_the_token_says_of_it(*, allowed: bool) -> None:
    answer, server = ask(KNOWN, ok({"status": {"allowed": allowed}}))

    assert answer is allowed
    tokens, access = server.requests
    assert tokens.path == "/apis/authentication.k8s.io/v1/tokenreviews"
    assert tokens.json()["spec"] == {"token": "secret"}  # for the API server's own audience
    assert access.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert access.json()["spec"] == {
        "user": "ann",
        "uid": "1",
        "groups": ["team-a"],
        "extra": {"scopes.x/y": ["z"]},
        "resourceAttributes": {"namespace": "ml", "verb": "list", "resource": "pods"},
    }


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False, "user": USER},
        {"authenticated": True},
        {"user": USER, "error": "token audiences [vault] is invalid"},
    ],
)
def test_a_token_that_is_not_authenticated_has_no_owner(status: dict[str, object]) -> None:
    answer, server = ask(ok({"status": status}))

    assert answer is None
    assert len(server.requests) == 1


@pytest.mark.parametrize("step", [refusal(403), refusal(500), ok({"status": {"allowed": "yes"}})])
def test_no_answer_is_an_error_and_no_permission(step: Step) -> None:
    with pytest.raises(ClusterError):
        ask(KNOWN, step)
