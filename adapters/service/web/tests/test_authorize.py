"""Tokens of people: no request is answered whose owner may not list what it asks for."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.service.tests.builders import run
from adapters.service.web.app import Answer, Call, Route
from adapters.service.web.authorize import AT_ONCE, KEPT, MOST, RATE, Authorizer
from adapters.wire.body import BodyError

GOOD = "good"


@dataclass
class Desk:
    """An API server that knows one token, of a user who may list the pods of ``ml``."""

    now: float = 0.0
    asked: list[tuple[str, str]] = field(default_factory=list)
    allowed: set[str] = field(default_factory=lambda: {"ml"})
    broken: ClusterError | None = None

    def __post_init__(self) -> None:
        self.guard = Authorizer(self.review, lambda: self.now)

    async def review(self, token: str, namespace: str) -> bool | None:
        self.asked.append((token, namespace))
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        return namespace in self.allowed if token == GOOD else None

    def answer(
        self,
        path: str = "/api/tenant/pods",
        namespace: str | None = "ml",
        *headers: tuple[bytes, bytes],
        bearer: str | None = GOOD,
    ) -> Answer:
        async def handler(_: Call) -> Answer:
            return Answer(b"secret")

        fields: Sequence[tuple[bytes, bytes]] = headers
        if bearer is not None:
            fields = [*headers, (b"authorization", f"Bearer {bearer}".encode())]
        query = {} if namespace is None else {"namespace": namespace}
        route = self.guard.guarded(path, Route(handler))

        async def asked() -> Answer:
            return await route.handler(Call(query=query, headers=fields))

        return run(asked())


def test_a_user_is_answered_about_its_namespace_and_no_other() -> None:
    desk = Desk()

    assert desk.answer().body == b"secret"
    assert desk.answer(namespace="other").status == 403
    assert b"may not list pods in namespace other" in desk.answer(namespace="other").body


def test_what_is_not_of_one_namespace_needs_the_right_on_all() -> None:
    desk = Desk()

    for path in ("/api/pods", "/api/dashboard/pods", "/api/explain"):
        assert desk.answer(path).status == 403  # whatever its parameter says
    desk.allowed.add("")
    desk.now += KEPT
    assert desk.answer("/api/pods").status == 200
    assert {namespace for _, namespace in desk.asked} == {""}


@pytest.mark.parametrize(
    "namespace", [None, "", "*", "..", "ml/../other", "ml/other", "ML", "ml\n", "a" * 64, "m l"]
)
def test_a_namespace_that_is_no_name_is_not_asked_about(namespace: str | None) -> None:
    desk = Desk()

    with pytest.raises(BodyError, match="must be the name of a namespace"):
        desk.answer(namespace=namespace)
    assert desk.asked == []


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic Z29vZDp4",
        b"good",
        b"Bearer good,Bearer good",
        b"Bearer go od",
        b"Bearer good\n",
        b"Bearer g\xc3\xb6\xc3\xb6d",
        b'Bearer {"x": 1}',
    ],
)
def test_a_request_without_a_token_is_401_and_costs_no_review(value: bytes | None) -> None:
    desk = Desk()
    fields = [] if value is None else [(b"authorization", value)]

    got = desk.answer("/api/tenant/pods", "ml", *fields, bearer=None)

    assert got.status == 401
    assert got.headers == ((b"www-authenticate", b"Bearer"),)
    assert b"\n" not in got.body
    assert desk.asked == []


@pytest.mark.parametrize(
    "header",
    [
        (b"x-remote-user", b"admin"),
        (b"impersonate-user", b"admin"),
        (b"x-forwarded-user", b"admin"),
        (b"x-forwarded-for", b"127.0.0.1"),
        (b"cookie", b"token=good"),
        (b"authorization", b"Bearer good"),
    ],
)
def test_no_other_header_and_no_second_token_gives_a_right(header: tuple[bytes, bytes]) -> None:
    desk = Desk()

    assert desk.answer("/api/tenant/pods", "ml", header, bearer="bad").status == 401
    assert desk.answer("/api/tenant/pods", "ml", header, bearer="").status == 401


def test_an_answer_is_kept_for_a_short_time_by_token_and_namespace() -> None:
    desk = Desk()

    for _ in range(3):
        assert desk.answer().status == 200
        assert desk.answer(bearer="bad").status == 401
        assert desk.answer(namespace="b").status == 403
    assert desk.asked == [("good", "ml"), ("bad", "ml"), ("good", "b")]
    desk.allowed.clear()
    desk.now += KEPT

    assert desk.answer().status == 403


def test_an_api_server_that_does_not_answer_permits_nothing_and_is_asked_again() -> None:
    desk = Desk(broken=ClusterError(403, "Forbidden", "token good is bad"))

    got = desk.answer()
    assert (got.status, b"good" in got.body) == (503, False)
    desk.broken = None

    assert desk.answer().status == 200


def test_unknown_tokens_cost_bounded_work_and_displace_no_known_one() -> None:
    desk = Desk()
    assert desk.answer().status == 200
    first = len(desk.asked)

    for second in range(int(KEPT) - 1):
        desk.now = float(second)
        for number in range(3 * RATE):
            assert desk.answer(bearer=f"bad-{second}-{number}").status in (401, 429)
        assert desk.answer().status == 200

    assert len(desk.asked) - first <= RATE * KEPT
    assert len(desk.guard._known) < MOST
    for second in range(100, 200):  # expired ones leave, so that it stays bounded
        desk.now = float(second)
        for number in range(RATE):
            desk.answer(bearer=f"late-{second}-{number}")
    assert len(desk.guard._known) <= MOST
    assert not any(b"late" in key[0] for key in desk.guard._known)


def test_forged_tokens_keep_no_user_away_whose_token_was_good() -> None:
    desk = Desk()
    statuses = set[int]()
    for second in range(5 * int(KEPT)):
        desk.now = second
        for number in range(RATE if second else 0):
            desk.answer(bearer=f"forged-{second}-{number}")
        if second % 5 == 0:
            statuses.add(desk.answer().status)

    assert statuses == {200}
    assert desk.answer(bearer="new").status == 429


def test_slow_reviews_are_few_so_that_bindings_have_connections() -> None:
    desk = Desk()

    async def many() -> list[int]:
        async def handler(_: Call) -> Answer:
            return Answer(b"secret")

        route = desk.guard.guarded("/api/tenant/pods", Route(handler))
        calls = [
            Call(query={"namespace": "ml"}, headers=[(b"authorization", f"Bearer {n}".encode())])
            for n in range(AT_ONCE + 4)
        ]
        answers = await asyncio.gather(*map(route.handler, calls))
        return [each.status for each in answers]

    assert run(many()) == [401] * AT_ONCE + [429] * 4
    assert len(desk.asked) == AT_ONCE
    assert desk.answer().status == 200  # those that ended make room
