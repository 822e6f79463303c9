"""What can go wrong with one request to the API server, and with which request it does."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
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


Forward = Callable[[], Awaitable[Answer]]
"""Lets the request through, to the server's answer."""

Act = Callable[[Forward], Awaitable[Answer]]
"""What is done instead of letting it through.

Raises:
    CutError: there is no answer.
"""


@dataclass(slots=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        where: the requests with which it does.
        act: what is done to them.
        times: how often it is still to be done.
        done: set when it has been done for the first time.
    """

    where: Callable[[Request], bool]
    act: Act
    times: int = 1
    done: Event = field(default_factory=Event)

    def takes(self, request: Request) -> bool:
        """Whether it is to be done to this request; then that is counted."""
        if self.times <= 0 or not self.where(request):
            return False
        self.times -= 1
        return True


def refusing(status: int, *, after_seconds: int | None = None) -> Act:
    """The server never sees it; the answer is a refusal.

    Args:
        status: of HTTP.
        after_seconds: the header ``Retry-After``.
    """
    headers = {} if after_seconds is None else {"Retry-After": str(after_seconds)}

    async def act(_: Forward) -> Answer:
        return Answer(status, _status(status), headers)

    return act


def denying(status: int) -> Act:
    """The server does it; the answer says that it did not."""

    async def act(forward: Forward) -> Answer:
        await forward()
        return Answer(status, _status(status))

    return act


def slow(seconds: float) -> Act:
    """The answer takes its time."""

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
            await forward()
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
            await forward()
        await asyncio.sleep(3600)
        raise CutError

    return act


def answered(first: Callable[[], None]) -> Act:
    """All goes well, and something is done just as the answer is given."""

    async def act(forward: Forward) -> Answer:
        answer = await forward()
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
