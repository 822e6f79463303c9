"""Every change of the pods of a namespace, one after the other, as the API server sends them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e.harness.cluster.api import Api, Object

See = Callable[[str, Object], None]
"""Called with ``ADDED``, ``MODIFIED``, ``DELETED`` or ``ERROR``, and the object."""


@contextmanager
def following(api: Api, path: str, see: See) -> Iterator[None]:
    """Call a function with all pods and then with each change, from a thread, for a block.

    Where the watch breaks, the function gets the error, and no change after it.
    """
    listed = api.get(path)
    for row in listed["items"]:
        see("ADDED", row)
    ended = threading.Event()
    begin = listed["metadata"]["resourceVersion"]
    work = threading.Thread(target=_follow, args=(api, path, begin, see, ended.is_set))
    work.start()
    try:
        yield
    finally:
        ended.set()
        work.join(30)


def _follow(api: Api, path: str, version: str, see: See, ended: Callable[[], bool]) -> None:
    while not ended():
        for change in api.watch(path, version, 2):
            see(change["type"], change["object"])
            if change["type"] == "ERROR":
                return
            version = change["object"]["metadata"]["resourceVersion"]
