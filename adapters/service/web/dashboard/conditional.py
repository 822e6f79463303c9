"""Answers that cost little when nothing has changed: entity tags, and gzip."""

import gzip
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b

import orjson

from adapters.service.web.app import JSON, Answer, Call

KEPT = 32
"""Answers of one question that are kept, by its parameters; the least recently used goes first."""

SMALL = 1000
"""Bytes of a body that is not worth compressing."""

REVALIDATE = (b"cache-control", b"private, no-cache")
"""A browser may keep the answer, and asks each time whether it is still the same."""

VARY = (b"vary", b"accept-encoding")


@dataclass(frozen=True, slots=True)
class Content:
    """A body as it is sent.

    Attributes:
        plain: as it is.
        packed: with gzip; None where that saves nothing.
        tag: of the content; weak, because both forms have it.
        kind: media type.
    """

    plain: bytes
    packed: bytes | None
    tag: bytes
    kind: str = JSON

    @classmethod
    def of(cls, plain: bytes, kind: str = JSON, level: int = 1) -> "Content":
        """Compress a body, and compute its tag."""
        packed = gzip.compress(plain, level, mtime=0) if len(plain) > SMALL else None
        digest = blake2b(plain, digest_size=12).hexdigest()
        return cls(plain, packed, f'W/"{digest}"'.encode(), kind)

    def answer(self, call: Call, cache: tuple[bytes, bytes] = REVALIDATE) -> Answer:
        """The response: 304 where the client has this content."""
        headers = ((b"etag", self.tag), cache, VARY)
        if _has(call, self.tag):
            return Answer(b"", 304, self.kind, headers=headers)
        if self.packed is not None and call.gzip:
            packed = (*headers, (b"content-encoding", b"gzip"))
            return Answer(self.packed, kind=self.kind, headers=packed)
        return Answer(self.plain, kind=self.kind, headers=headers)


class ConditionalView:
    """One question; its answers are computed again only when what they show may differ."""

    def __init__(
        self, version: Callable[[], Hashable], view: Callable[[Call], Awaitable[object]]
    ) -> None:
        """Store the functions.

        Args:
            version: differs when an answer may differ; None where that is not known.
            view: computes the answer.
        """
        self._version = version
        self._view = view
        self._kept: OrderedDict[Hashable, tuple[Hashable, Content]] = OrderedDict()

    async def answer(self, call: Call) -> Answer:
        """Answer a request."""
        version, key = self._version(), tuple(sorted(call.query.items()))
        known, content = self._kept.get(key, (None, None))
        if content is None or version is None or known != version:
            content = Content.of(orjson.dumps(await self._view(call)))
            self._kept[key] = (version, content)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return content.answer(call)


def _has(call: Call, tag: bytes) -> bool:
    known = call.header(b"if-none-match").split(b",")
    return tag.removeprefix(b"W/") in (each.strip().removeprefix(b"W/") for each in known)
