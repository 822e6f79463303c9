"""A control plane with ready nodes, on which tests run schedulers."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.nodes import add_nodes, is_ready, start_kwok
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within

PODS = "/api/v1/namespaces/default/pods"


@contextmanager
def cluster(nodes: Sequence[Object]) -> Iterator[ControlPlane]:
    """A control plane with these nodes, kept ready by kwok, for the length of a block.

    Raises:
        NotBuiltError: a part is not built.
    """
    with run() as this:
        plane = start_control_plane(this)
        start_kwok(plane)
        add_nodes(plane.api, nodes)
        wait_for_nodes(plane.api)
        yield plane


def wait_for_nodes(api: Api, names: Collection[str] = (), patience: float = 60) -> None:
    """Wait until these nodes accept pods; all nodes, if none is named."""

    def ready() -> bool:
        rows = api.get("/api/v1/nodes")["items"]
        return all(is_ready(row) for row in rows if not names or row["metadata"]["name"] in names)

    within(patience, ready)


@contextmanager
def turn(start: Callable[[], None], plane: ControlPlane) -> Iterator[Process]:
    """Start something on a control plane and stop the last of its processes after the block.

    Processes that an earlier turn stopped are forgotten, so that their logs do not appear under a
    later failure.
    """
    running = [process for process in plane.run.processes if process.popen.poll() is None]
    plane.run.processes[:] = running
    start()
    process = plane.run.processes[-1]
    try:
        yield process
    finally:
        process.stop()


def pod(
    name: str, scheduler: str, resources: dict[str, str], *, priority: str = "", **spec: object
) -> Object:
    """A pod of one container.

    Args:
        name: of the pod.
        scheduler: its schedulerName.
        resources: its limits, which are its requests too.
        priority: name of a priority class, or none.
        spec: further fields of the specification.
    """
    container = {"name": "main", "image": "localhost/none", "resources": {"limits": resources}}
    of_class = {"priorityClassName": priority} if priority else {}
    specification = {
        "schedulerName": scheduler,
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        **of_class,
        **spec,
    }
    return {"metadata": {"name": name}, "spec": specification}


def add_priorities(api: Api) -> None:
    """Two priority classes, ``low`` and ``high``."""
    for name, value in (("low", 1), ("high", 1000)):
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        api.create(path, {"metadata": {"name": name}, "value": value})


def clear(api: Api, *collections: str) -> None:
    """Delete every pod of the default namespace, and all objects of further collections."""
    for path in (PODS, *collections):
        api.delete(f"{path}?gracePeriodSeconds=0")
    within(20, lambda: not api.get(PODS)["items"])


def node_of(api: Api, name: str) -> str:
    """Where a pod of the default namespace is, or the empty string."""
    return str(api.get(f"{PODS}/{name}")["spec"].get("nodeName", ""))


def events(api: Api, name: str) -> list[str]:
    """The Events of a pod: reason, how often, message."""
    uid = api.get(f"{PODS}/{name}")["metadata"]["uid"]
    path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid={uid}"
    return [
        f"{row['reason']} x{row.get('count') or (row.get('series') or {}).get('count') or 1}: "
        f"{row['message']}"
        for row in api.get(path)["items"]
    ]


def bind(api: Api, name: str, node: str, annotations: dict[str, str] | None = None) -> None:
    """Bind a pod of the default namespace, as an extender with a bind verb does."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": annotations or {}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    api.create(f"{PODS}/{name}/binding", body)
