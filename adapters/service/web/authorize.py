"""Who may ask for what people read: by the token of a request, and the rights of its owner.

A question about one namespace needs ``list`` on its pods, any other ``list`` on the pods of all. No
other header field counts.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import blake2b
from time import monotonic

from adapters.cluster.api.error import ClusterError
from adapters.service.web.app import Answer, Call, Route, problem
from adapters.wire.body import BodyError

TENANT = "/api/tenant/"
"""Begin of the paths of questions about the namespace in the parameter ``namespace``."""

KEPT = 30.0
"""Seconds for which the answer about a token counts: so long a right outlives its end."""

RATE = 20
"""Tokens that are reviewed in a second, and as many again of those that were good ``KEPT`` seconds
ago: forged ones keep no user away. ``KEPT`` seconds of unknown tokens are fewer than ``MOST``, so
that they displace no answer that counts."""

AT_ONCE = 8
"""Reviews in progress, of either kind: Bindings use the same connections to the API server, which
may be slow."""

MOST = 1024
"""Answers that are kept."""

CHALLENGE = ((b"www-authenticate", b"Bearer"),)
RETRY = ((b"retry-after", b"1"),)

# Source: RFC 6750, section 2.1. The length is that of all header fields that a port reads.
_BEARER = re.compile(rb"[Bb]earer +([A-Za-z0-9._~+/-]+=*)")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

Review = Callable[[str, str], Awaitable[bool | None]]
"""Asks whether the owner of a token may list the pods of a namespace; empty for all namespaces.

None where there is no such token.
"""


def namespace_of(call: Call) -> str:
    """Return the namespace of a question about one.

    Raises:
        BodyError: there is none, or it is no name of a namespace.
    """
    name = call.query.get("namespace", "")
    if not _NAMESPACE.fullmatch(name):
        raise BodyError(f"namespace: {name[:80]!r}: must be the name of a namespace")
    return name


class Authorizer:
    """Answers about tokens, kept for a short time by their digests."""

    def __init__(self, review: Review, clock: Callable[[], float] = monotonic) -> None:
        self._review = review
        self._clock = clock
        self._known: dict[tuple[bytes, str], tuple[float, bool | None]] = {}
        self._second, self._reviewed, self._running = 0, [0, 0], [0, 0]

    def guarded(self, path: str, route: Route) -> Route:
        """Return a route that answers only users who may ask its question."""

        async def answer(call: Call) -> Answer:
            namespace = namespace_of(call) if path.startswith(TENANT) else ""
            return await self._refusal(call, namespace) or await route.handler(call)

        return replace(route, handler=answer)

    async def _refusal(self, call: Call, namespace: str) -> Answer | None:
        """Return why a request is not answered; None where it is."""
        bearer = _BEARER.fullmatch(call.header(b"authorization"))
        if bearer is None:
            text = "this service needs a token: Authorization: Bearer TOKEN"
            return replace(problem(401, text), headers=CHALLENGE)
        key = blake2b(bearer[1], digest_size=32).digest(), namespace
        now = self._clock()
        until, allowed = self._known.get(key, (now, None))
        if until <= now:
            was_good = bool(allowed)
            if self._second != int(now):
                self._second, self._reviewed = int(now), [0, 0]
            if self._reviewed[was_good] >= RATE or self._running[was_good] >= AT_ONCE:
                text = "too many tokens are reviewed now; try again"
                return replace(problem(429, text), headers=RETRY)
            self._reviewed[was_good] += 1
            self._running[was_good] += 1
            try:
                allowed = await self._review(bearer[1].decode(), namespace)
            except ClusterError as error:  # its message may repeat what was sent
                text = f"the API server did not review the token: {error.status} {error.reason}"
                return problem(503, text)
            finally:
                self._running[was_good] -= 1
            if len(self._known) >= MOST:
                self._known = {
                    each: (until, good)
                    for each, (until, good) in self._known.items()
                    if until + (KEPT if good else 0) > now
                }
            self._known[key] = now + KEPT, allowed
        if allowed is None:
            return replace(
                problem(401, "the API server does not accept this token"), headers=CHALLENGE
            )
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        return (
            None if allowed else problem(403, f"the owner of the token may not list pods {where}")
        )
