"""Many objects at once, over connections that stay open."""

import http.client
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TypeVar

from e2e.harness.cluster.api import Api, ApiError, Object

CONNECTIONS = 8

T = TypeVar("T")

_Request = tuple[str, str, str | None]
"""Verb, path and body."""


def at_once(work: Callable[[T], object], items: Iterable[T]) -> None:
    """Call a function for each item, a few at a time; the first error is raised after all calls."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for _ in pool.map(work, items):
            pass


def create_all(api: Api, path: str, objects: Sequence[Object]) -> None:
    """Create objects in a collection.

    Raises:
        ApiError: the server refused one; others may have been created.
        OSError: it did not answer.
    """
    _send_all(api, [("POST", path, json.dumps(each)) for each in objects])


def delete_all(api: Api, path: str, names: Sequence[str]) -> None:
    """Delete objects of a collection at once; errors as of ``create_all``."""
    _send_all(api, [("DELETE", f"{path}/{name}?gracePeriodSeconds=0", None) for name in names])


def _send_all(api: Api, requests: Sequence[_Request]) -> None:
    shares = [requests[start::CONNECTIONS] for start in range(min(CONNECTIONS, len(requests)))]
    at_once(partial(_send, api), shares)


def _send(api: Api, requests: Sequence[_Request]) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json", **api.headers}
    with closing(api.connection()) as connection:
        for verb, path, body in requests:
            connection.request(verb, api.at(path), body, headers)
            response = connection.getresponse()
            answer = response.read()
            if response.status >= http.client.MULTIPLE_CHOICES:
                raise ApiError(response.status, json.loads(answer))
            if body is not None:
                api.note(path, json.loads(body))
