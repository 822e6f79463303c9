"""The lock of a node, and its text."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.nodes import KEY, LockedError, NodeClient, NodeLock, NodeLockClient
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.objects import Objects
from adapters.cluster.tests.server import Reply, Request, client, serving
from core.requests.request import PodRef

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@given(st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)), NAMES, NAMES)
def test_a_written_lock_is_read(since: datetime, namespace: str, name: str) -> None:
    lock = NodeLock(since, namespace, name)

    assert NodeLock.read(lock.write()) == lock


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("2026-01-02T03:04:05Z,ns,pod", ("ns", "pod")),
        ("2026-01-02T11:04:05+08:00,ns,pod", ("ns", "pod")),
        ("2026-01-02T03:04:05Z", ("", "")),
    ],
)
def test_a_lock_of_hami_is_read(text: str, owner: tuple[str, str]) -> None:
    lock = NodeLock.read(text)

    assert lock.since == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (lock.namespace, lock.name) == owner


@given(st.text())
def test_any_text_is_a_lock(text: str) -> None:
    lock = NodeLock.read(text)

    assert lock.since is None or lock.since.tzinfo is not None


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NODE = "/api/v1/nodes/x"


def after(
    lock: str | None,
    call: Callable[[NodeLockClient], Awaitable[object]],
    *pods: str,
    spec: Mapping[str, str] = MappingProxyType({}),
    phase: str = "Pending",
    meddle: Callable[[Objects, Request], None] | None = None,
) -> str | None:
    """The lock of node x after a call; the pods are in namespace ``n``."""
    objects = Objects()
    objects.put(NODE, {"metadata": {"name": "x", "annotations": {KEY: lock} if lock else {}}})
    for pod in pods:
        there = {"metadata": {"name": pod}, "spec": dict(spec), "status": {"phase": phase}}
        objects.put(f"/api/v1/namespaces/n/pods/{pod}", there)

    async def step(request: Request, reply: Reply) -> None:
        if meddle is not None:
            meddle(objects, request)
        await objects(request, reply)

    async def main() -> None:
        async with serving(step) as server, client(server) as api:
            await call(NodeLockClient(NodeClient(api), PodClient(api), lambda: NOW))

    asyncio.run(main())
    found = objects.at[NODE]["metadata"]["annotations"].get(KEY)
    assert found is None or isinstance(found, str)
    return found


def take(locks: NodeLockClient) -> Awaitable[object]:
    return locks.acquire("x", PodRef("n", "mine"))


def text(owner: str, age: timedelta = timedelta()) -> str:
    return NodeLock(NOW - age, "n", owner).write()


def test_a_free_node_is_locked() -> None:
    assert after(None, take) == "2026-01-02T03:04:05Z,n,mine"


def test_a_lock_that_the_pod_has_stays_as_it_is() -> None:
    mine = text("mine", timedelta(minutes=2))

    assert after(mine, take) == mine


@pytest.mark.parametrize("age", [timedelta(), timedelta(minutes=4, seconds=59)])
def test_the_lock_of_a_living_pod_is_respected(age: timedelta) -> None:
    with pytest.raises(LockedError, match="n/other"):
        after(text("other", age), take, "other")


@pytest.mark.parametrize("lock", [text("other", timedelta(minutes=6)), "nonsense", ",n,other"])
def test_a_lock_that_is_old_or_unreadable_is_taken_over(lock: str) -> None:
    assert after(lock, take, "other") == text("mine")


def test_the_lock_of_a_deleted_pod_is_taken_over() -> None:
    assert after(text("other"), take) == text("mine")


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_the_lock_of_a_pod_whose_containers_have_been_served_is_taken_over(phase: str) -> None:
    assert after(text("other"), take, "other", spec={"nodeName": "x"}, phase=phase) == text("mine")


def test_the_lock_of_a_pod_on_another_node_is_taken_over() -> None:
    assert after(text("other"), take, "other", spec={"nodeName": "y"}) == text("mine")


def test_the_lock_of_a_pod_that_has_not_started_here_is_respected() -> None:
    with pytest.raises(LockedError, match="n/other"):
        after(text("other"), take, "other", spec={"nodeName": "x"})


def test_a_lock_of_its_own_that_is_old_is_renewed() -> None:
    assert after(text("mine", timedelta(minutes=6)), take) == text("mine")


def test_acquire_returns_whether_the_pod_had_no_lock_before() -> None:
    new: list[bool] = []

    async def twice(locks: NodeLockClient) -> None:
        new.append(await locks.acquire("x", PodRef("n", "mine")))
        new.append(await locks.acquire("x", PodRef("n", "mine")))

    after(None, twice)

    assert new == [True, False]


def test_a_lock_without_owner_is_respected_until_it_is_old() -> None:
    with pytest.raises(LockedError, match="unknown"):
        after("2026-01-02T03:04:00Z", take)


def test_a_node_that_changed_meanwhile_is_read_again() -> None:
    def meddle(objects: Objects, request: Request) -> None:
        if request.method == "PATCH" and len(objects.at) == 1:
            objects.put("/api/v1/namespaces/n/pods/quick", {"metadata": {"name": "quick"}})
            there = objects.at[NODE]
            there["metadata"]["annotations"] = {KEY: text("quick")}
            objects.put(NODE, there)

    with pytest.raises(LockedError, match="n/quick"):
        after(None, take, meddle=meddle)


def test_only_the_owner_releases_a_lock() -> None:
    assert after(text("mine"), lambda locks: locks.release("x", PodRef("n", "mine"))) is None
    other = text("other")
    assert after(other, lambda locks: locks.release("x", PodRef("n", "mine")), "other") == other


def test_a_missing_node_cannot_be_locked() -> None:
    with pytest.raises(ClusterError) as refusal:
        after(None, lambda locks: locks.acquire("y", PodRef("n", "mine")))

    assert refusal.value.status == 404
