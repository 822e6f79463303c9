"""Faults: which request to the API server fails, and how."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Event


class CutError(ConnectionError):
    """The connection is to be cut without an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks.

    Attributes:
        path: without the query.
    """

    method: str
    path: str
    body: bytes = field(repr=False)

    def is_ledger(self, pod: str) -> bool:
        """Whether it is to write a ledger in which a pod of this name holds cards."""
        if self.method not in {"PUT", "POST"} or "/nodeledgers" not in self.path:
            return False
        found = json.loads(self.body)["spec"].get("allocations") or ()
        return any(row["pod"].rpartition("/")[2] == pod for row in found)

    def is_binding(self, pod: str) -> bool:
        """Whether it is to bind a pod of this name."""
        return self.method == "POST" and self.path.endswith(f"/pods/{pod}/binding")


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """The server has refused what it should have done: the fault waits for another request."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


Forward = Callable[[], Awaitable[Answer]]
"""Lets the request through, to the server's answer."""

Act = Callable[[Forward], Awaitable[Answer]]
"""What happens instead of passing the request on.

Raises:
    CutError: there is no answer.
    RefusedError: the fault has not happened.
"""


@dataclass(slots=True)
class Fault:
    """A fault of some requests.

    Attributes:
        where: which requests it affects.
        act: what happens to them.
        times: how often it still happens.
        done: set when it has happened for the first time.
    """

    where: Callable[[Request], bool]
    act: Act
    times: int = 1
    done: Event = field(default_factory=Event)

    def takes(self, request: Request) -> bool:
        """Whether it affects this request; counts it if so."""
        if self.times <= 0 or not self.where(request):
            return False
        self.times -= 1
        return True

    async def happen(self, forward: Forward) -> Answer:
        """Do with a request what ``act`` does, or wait for another one.

        Raises:
            CutError: there is no answer.
        """
        is_done = True
        try:
            return await self.act(forward)
        except RefusedError as refused:
            is_done = False
            self.times += 1
            return refused.answer
        finally:
            if is_done:
                self.done.set()


async def _done(forward: Forward) -> Answer:
    answer = await forward()
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise RefusedError(answer)
    return answer


def refusing(status: int, *, after_seconds: int | None = None) -> Act:
    """The server never receives the request; the answer is an error status.

    Args:
        status: the HTTP status.
        after_seconds: the header ``Retry-After``.
    """
    headers = {} if after_seconds is None else {"Retry-After": str(after_seconds)}

    async def act(_: Forward) -> Answer:
        return Answer(status, _status(status), headers)

    return act


def failing_after(status: int) -> Act:
    """The server executes the request; the answer is an error status."""

    async def act(forward: Forward) -> Answer:
        await _done(forward)
        return Answer(status, _status(status))

    return act


def slow(seconds: float) -> Act:
    """The answer is delayed."""

    async def act(forward: Forward) -> Answer:
        await asyncio.sleep(seconds)
        return await forward()

    return act


def cut(*, done: bool, first: Callable[[], None] = lambda: None) -> Act:
    """No answer: the connection breaks.

    Args:
        done: whether the server has done what was asked.
        first: called before it breaks.
    """

    async def act(forward: Forward) -> Answer:
        if done:
            await _done(forward)
        first()
        raise CutError

    return act


def silent(*, done: bool) -> Act:
    """No answer, and the connection stays open.

    Args:
        done: whether the server has done what was asked.
    """

    async def act(forward: Forward) -> Answer:
        if done:
            await _done(forward)
        await asyncio.sleep(3600)
        raise CutError

    return act


def answered(first: Callable[[], None]) -> Act:
    """The request succeeds; a callback runs just before the answer is sent."""

    async def act(forward: Forward) -> Answer:
        answer = await _done(forward)
        asyncio.get_running_loop().call_soon(first)
        return answer

    return act


def _status(code: int) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": {409: "Conflict", 429: "TooManyRequests"}.get(code, "InternalError"),
            "message": "the proxy says so",
        }
    ).encode()
