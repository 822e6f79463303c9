"""The files of the dashboard: one page, its modules and its styles, without a build step."""

from hashlib import blake2b
from importlib.resources import files
from pathlib import PurePosixPath

import orjson

from adapters.dialects import registry
from adapters.service.web.app import Answer, Call, problem
from adapters.service.web.dashboard.conditional import REVALIDATE, Content

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

FOREVER = (b"cache-control", b"public, max-age=31536000, immutable")
"""The caching of a path with the digest of all files: it never has another content."""

POLICY = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    b" base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
)
"""The page loads and calls only its own origin, and no other page may frame it."""

PAGE_HEADERS = (
    POLICY,
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)

_DIALECTS = b"[/* the service inserts the dialects and their colors */]"
_STATIC = b"static/"


class StaticFiles:
    """Answers for the page and for its files.

    The page names its files by relative paths, so that it works below any path of a proxy.
    """

    def __init__(self) -> None:
        """Read all files of the package."""
        folder = files("adapters.service.web.dashboard").joinpath("static")
        found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
        page = found.pop("index.html")
        self._files = {
            name: Content.of(body, KINDS[PurePosixPath(name).suffix], 9)
            for name, body in sorted(found.items())
        }
        digest = blake2b(digest_size=8)
        for content in self._files.values():
            digest.update(content.tag)
        self.digest = digest.hexdigest()
        self._page = Content.of(self._composed(page), KINDS[".html"], 9)

    async def page(self, call: Call) -> Answer:
        """The page itself."""
        answer = self._page.answer(call)
        return Answer(
            answer.body, answer.status, answer.kind, headers=(*answer.headers, *PAGE_HEADERS)
        )

    async def file(self, call: Call) -> Answer:
        """A file, as ``DIGEST/NAME``.

        Another replica's page may name another digest: it gets what is here, and does not keep it.
        """
        digest, _, name = call.rest.partition("/")
        content = self._files.get(name)
        if content is None:
            return problem(404, f"the dashboard has no file {name[:80]!r}")
        return content.answer(call, FOREVER if digest == self.digest else REVALIDATE)

    def _composed(self, page: bytes) -> bytes:
        """The page with the dialects of the registry and the paths of its files."""
        dialects = [
            {"name": info.name, "color": info.style.web_color, "letter": info.style.letter}
            for info in registry.DIALECTS
        ]
        return page.replace(_DIALECTS, orjson.dumps(dialects)).replace(
            b'"' + _STATIC, b'"' + _STATIC + self.digest.encode() + b"/"
        )
