"""Many objects at once, over connections that stay open."""

import http.client
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from e2e.harness.api import Api, ApiError, Object

CONNECTIONS = 8


def create_all(api: Api, path: str, objects: Sequence[Object]) -> None:
    """Create objects in a collection.

    Raises:
        ApiError: the server refused one; others may have been created.
        OSError: it did not answer.
    """
    shares = [objects[start::CONNECTIONS] for start in range(min(CONNECTIONS, len(objects)))]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for _ in pool.map(lambda share: _create(api, path, share), shares):
            pass


def _create(api: Api, path: str, objects: Sequence[Object]) -> None:
    connection = api.connection()
    headers = {"Content-Type": "application/json", "Accept": "application/json", **api.headers}
    try:
        for body in objects:
            connection.request("POST", f"{api.root}{path}", json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.read()
            if response.status >= http.client.MULTIPLE_CHOICES:
                raise ApiError(response.status, json.loads(answer))
    finally:
        connection.close()
