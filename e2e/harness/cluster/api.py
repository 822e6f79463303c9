"""A plain client of the Kubernetes API: paths in, JSON out.

The tests speak to the server without a client library, so that what they prove holds for the
server and not for a library.
"""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from e2e.harness.cluster.certificates import Pair

Object = dict[str, Any]


class ApiError(RuntimeError):
    """The server refused.

    Attributes:
        status: the HTTP status code.
        answer: the body, a ``Status`` object as a rule.
    """

    def __init__(self, status: int, answer: Object) -> None:
        super().__init__(f"{status}: {answer.get('message', answer)}")
        self.status = status
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Api:
    """An API server, as one user sees it.

    Attributes:
        headers: sent with every request: the user, where the certificate does not name it.
        root: what all paths at the server begin with, without a slash at the end.
        home: the namespace that replaces ``default`` in paths.
        made: paths of the cluster-scoped objects that were created here, for the clean-up.
    """

    port: int
    context: ssl.SSLContext = field(repr=False)
    host: str = "127.0.0.1"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    root: str = ""
    home: str = "default"
    made: list[str] = field(default_factory=list[str], repr=False, compare=False)

    @classmethod
    def connect(cls, port: int, authority: Pair, user: Pair) -> "Api":
        """The server on this loopback port."""
        context = ssl.create_default_context(cafile=authority.certificate)
        context.load_cert_chain(user.certificate, user.key)
        return cls(port=port, context=context)

    def impersonating(self, user: str, group: str = "") -> "Api":
        """Return the server as another user, which an administrator may do."""
        speaker = {"Impersonate-User": user} | ({"Impersonate-Group": group} if group else {})
        return replace(self, headers={**self.headers, **speaker})

    def connection(self, patience: float = 30) -> http.client.HTTPSConnection:
        """A connection, not open yet. Requests over it need ``headers`` and ``at``."""
        return http.client.HTTPSConnection(
            self.host, self.port, context=self.context, timeout=patience
        )

    def get(self, path: str) -> Object:
        """Read."""
        return self.call("GET", path)

    def create(self, path: str, body: Object) -> Object:
        """Post an object to its collection, or to a subresource."""
        answer = self.call("POST", path, body)
        self.note(path, body)
        return answer

    def note(self, collection: str, made: Object) -> None:
        """Remember an object, if it belongs to no namespace."""
        if "/namespaces/" not in collection and "name" in made.get("metadata", {}):
            self.made.append(f"{collection}/{made['metadata']['name']}")

    def at(self, path: str) -> str:
        """Where a path is found at the server."""
        return self.root + path.replace("/namespaces/default/", f"/namespaces/{self.home}/")

    def replace(self, path: str, body: Object) -> Object:
        """Put an object in the place of another."""
        return self.call("PUT", path, body)

    def merge(self, path: str, body: Object) -> Object:
        """Apply a JSON merge patch."""
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str) -> Object:
        """Delete."""
        return self.call("DELETE", path)

    def call(
        self, verb: str, path: str, body: Object | None = None, kind: str = "application/json"
    ) -> Object:
        """One request.

        Raises:
            ApiError: the server answered with a status of 300 or more.
            OSError: it did not answer.
        """
        connection = self.connection()
        try:
            connection.request(
                verb,
                self.at(path),
                None if body is None else json.dumps(body),
                {"Content-Type": kind, "Accept": "application/json", **self.headers},
            )
            response = connection.getresponse()
            answer = _decoded(response.read())
        except http.client.HTTPException as error:
            raise ConnectionError(f"{verb} {path}: {error!r}") from error
        finally:
            connection.close()
        if response.status >= http.client.MULTIPLE_CHOICES:
            raise ApiError(response.status, answer)
        return answer

    def is_ready(self) -> bool:
        """Whether the server says that it is ready."""
        try:
            self.call("GET", "/readyz")
        except ApiError:
            return False
        return True

    def watch(self, path: str, version: str, seconds: int) -> Iterator[Object]:
        """What happens in a collection after a resource version, for some seconds."""
        join = "&" if "?" in path else "?"
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={seconds}"
        connection = self.connection(seconds + 30)
        try:
            connection.request("GET", self.at(f"{path}{join}{query}"), headers=self.headers)
            for line in connection.getresponse():
                yield json.loads(line)
        finally:
            connection.close()


def _decoded(text: bytes) -> Object:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"message": text.decode(errors="replace")}
