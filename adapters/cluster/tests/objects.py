"""A step of the test server that keeps objects as the API server does: versions and conflicts."""

import itertools
import json
from typing import Any

from adapters.cluster.tests.server import Reply, Request

Object = dict[str, Any]


class Objects:
    """Objects by path; every write gives the next resourceVersion.

    Attributes:
        at: the objects.
        down: whether requests are refused.
        requests: how many there were.
        refused: how many of them were refused.
    """

    def __init__(self, **objects: Object) -> None:
        self.at: dict[str, Object] = {}
        self.down = False
        self.requests = 0
        self.refused = 0
        self._versions = itertools.count(1)
        for path, thing in objects.items():
            self.put(path, thing)

    def put(self, path: str, thing: Object) -> Object:
        metadata = thing.get("metadata") or {}
        version = str(next(self._versions))
        self.at[path] = {**thing, "metadata": {**metadata, "resourceVersion": version}}
        return self.at[path]

    async def __call__(self, request: Request, reply: Reply) -> None:
        self.requests += 1
        self.refused += self.down
        status, body = (503, {}) if self.down else self.answer(request)
        await reply.answer(status, body)

    def answer(self, request: Request) -> tuple[int, Object]:
        """The status and the object with which a request is answered."""
        path = request.path.removesuffix("/status")
        there = self.at.get(path)
        body: Object = json.loads(request.body or b"{}")
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.at:
                return 409, {"reason": "AlreadyExists"}
            return 201, self.put(path, body)
        if there is None:
            return 404, {"reason": "NotFound"}
        expected = (body.get("metadata") or {}).get("resourceVersion")
        if expected is not None and expected != there["metadata"]["resourceVersion"]:
            return 409, {"reason": "Conflict"}
        match request.method:
            case "PUT":
                return 200, self.put(path, body)
            case "PATCH":
                return 200, self.put(path, _merged(there, body))
            case "DELETE":
                return 200, self.at.pop(path)
            case _:
                return 200, there


def _merged(there: Any, patch: Any) -> Any:
    """A JSON merge patch, RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result: Object = dict(there) if isinstance(there, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
