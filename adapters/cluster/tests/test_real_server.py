"""Everything in this package against a real API server."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import DEVICES, EVENTS, LEASES, NODES, PODS, Selection
from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.cluster.objects.lease import Election, LeaseObject, LeaseSpec, LeaseTiming
from adapters.cluster.objects.nodes import KEY, LockedError, NodeClient, NodeLockClient
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.real import Real, a_pod, add_namespace, add_node, add_pods, real
from adapters.cluster.tests.recording_handler import RecordingHandler
from adapters.cluster.watch.reflector import Reflector, WatchSettings
from adapters.tests.waiting import until
from adapters.wire.kube import KubeNode, Pod
from core.requests.request import PodRef

SETTINGS = WatchSettings(initial=0.05, maximum=0.5)
TERM = LeaseTiming(duration=3.0, renew=2.0, retry=0.2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Real]:
    with real() as this:
        yield this


@contextlib.asynccontextmanager
async def following(
    client: KubeClient, namespace: str, pace: WatchSettings
) -> AsyncIterator[tuple[RecordingHandler, Reflector[Pod]]]:
    handler = RecordingHandler()
    reflector = Reflector(client, Selection(PODS, namespace), Pod, handler, settings=pace)
    task = asyncio.create_task(reflector.run())
    try:
        await asyncio.wait_for(reflector.ready.wait(), 30)
        yield handler, reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "pages"])
def test_two_thousand_pods_are_listed_and_watched(cluster: Real, *, streaming: bool) -> None:
    namespace = f"many-{streaming}".lower()
    names = [f"p{number}" for number in range(2000)]

    async def main() -> None:
        async with cluster.client() as client:
            await add_namespace(client, namespace)
            await add_pods(client, names, namespace)
            pace = replace(SETTINGS, streaming=streaming)
            async with following(client, namespace, pace) as (handler, reflector):
                assert set(handler.pods) == set(names)
                assert handler.syncs == 1
                await client.delete(
                    PODS.path("p7", namespace), {"gracePeriodSeconds": 0, "kind": "DeleteOptions"}
                )
                await add_pods(client, ["late"], namespace)
                await until(lambda: "late" in handler.pods and "p7" not in handler.pods)
                assert reflector.stats.failures == 0
                assert reflector.staleness() < 5

    asyncio.run(main())


def test_no_event_is_lost_when_the_server_is_killed_and_started_again(cluster: Real) -> None:
    async def main() -> None:
        async with cluster.client() as client, cluster.client() as other:
            await add_namespace(client, "restart")
            async with following(client, "restart", SETTINGS) as (handler, reflector):
                await add_pods(other, [f"before-{i}" for i in range(50)], "restart")
                writing = asyncio.create_task(write_through(other))
                await asyncio.sleep(0.2)
                command = cluster.kill_server()
                await asyncio.sleep(1.0)
                await asyncio.to_thread(cluster.start_server, command)
                assert await writing > 0
                there = await names_of(other, "restart")
                await until(lambda: set(handler.pods) == there)
                assert len(there) >= 50
                assert reflector.stats.failures > 0

    async def write_through(client: KubeClient) -> int:
        """Create and delete while the server goes and comes; failures are part of it."""
        done = 0
        for i in range(100):
            with contextlib.suppress(ClusterError):
                await client.create(PODS.collection("restart"), a_pod(f"during-{i}"))
                done += 1
            if i % 3 == 0:
                with contextlib.suppress(ClusterError):
                    await client.delete(
                        PODS.path(f"during-{i}", "restart"),
                        {"gracePeriodSeconds": 0, "kind": "DeleteOptions"},
                    )
            await asyncio.sleep(0.005)
        return done

    asyncio.run(main())


async def names_of(client: KubeClient, namespace: str) -> set[str]:
    found = json.loads(await client.get(PODS.collection(namespace)))
    return {item["metadata"]["name"] for item in found["items"]}


def test_a_server_that_hangs_is_detected(cluster: Real) -> None:
    async def main() -> None:
        async with cluster.client() as client:
            await add_namespace(client, "frozen")
            pace = replace(SETTINGS, idle=1.0)
            async with following(client, "frozen", pace) as (handler, reflector):
                (server,) = [
                    each for each in cluster.plane.run.processes if each.name == "kube-apiserver"
                ]
                os.kill(server.popen.pid, signal.SIGSTOP)
                try:
                    await asyncio.sleep(2.0)
                    assert reflector.staleness() > 1.0
                finally:
                    os.kill(server.popen.pid, signal.SIGCONT)
                await add_pods(client, ["after"], "frozen")
                await until(lambda: "after" in handler.pods)
                assert reflector.stats.failures > 0

    asyncio.run(main())


def test_a_binding_sets_its_annotations_and_labels(cluster: Real) -> None:
    async def main() -> None:
        async with cluster.client() as client:
            await add_node(client, "target")
            binder, pods = PodClient(client), PodClient(client)
            uid = await new_pod(client, "bound")
            grant = {"dragoman.dev/grant": "card-0"}

            await binder.bind(PodRef("default", "bound", uid), "target", grant, {"assigned": "yes"})

            pod = await pods.get(PodRef("default", "bound"))
            assert pod is not None
            assert pod.spec.node_name == "target"
            assert (pod.metadata.labels or {})["assigned"] == "yes"
            assert (pod.metadata.annotations or {})["dragoman.dev/grant"] == "card-0"

            for node in ("target", "other"):
                with pytest.raises(ClusterError) as again:
                    await binder.bind(PodRef("default", "bound", uid), node, grant, {})
                assert (again.value.status, again.value.uncertain) == (409, False)

    asyncio.run(main())


def test_a_binding_for_a_pod_that_was_annotated_meanwhile_is_a_conflict(cluster: Real) -> None:
    async def main() -> None:
        async with cluster.client() as client:
            await add_node(client, "versioned")
            binder, pods = PodClient(client), PodClient(client)
            pod = PodRef("default", "changed", await new_pod(client, "changed"))
            read = await pods.get(pod)
            assert read is not None

            now = await pods.annotate(pod, {"dragoman.dev/released": "now"})
            with pytest.raises(ClusterError) as late:
                await binder.bind(pod, "versioned", {}, {}, read.metadata.resource_version)
            await binder.bind(pod, "versioned", {}, {}, now.metadata.resource_version)

            assert (late.value.status, late.value.uncertain) == (409, False)
            assert now.spec.node_name in (None, "")

    asyncio.run(main())


def test_a_binding_for_another_uid_is_a_conflict_and_without_a_pod_not_found(
    cluster: Real,
) -> None:
    async def main() -> None:
        async with cluster.client() as client:
            uid = await new_pod(client, "namesake")
            other = "0" + uid[1:] if uid[0] != "0" else "1" + uid[1:]
            for name, claimed, status in (("namesake", other, 409), ("missing", uid, 404)):
                with pytest.raises(ClusterError) as refusal:
                    await PodClient(client).bind(PodRef("default", name, claimed), "target", {}, {})
                assert refusal.value.status == status

    asyncio.run(main())


async def new_pod(client: KubeClient, name: str) -> str:
    made = msgspec.json.decode(
        await client.create(PODS.collection("default"), a_pod(name)), type=Pod
    )
    return made.metadata.uid


def test_only_the_pod_with_the_uid_is_annotated(cluster: Real) -> None:
    async def main() -> None:
        async with cluster.client() as client:
            pods, uid = PodClient(client), await new_pod(client, "noted")
            await pods.annotate(PodRef("default", "noted", uid), {"a/b": "1"}, {"l": "2"})
            await pods.annotate(PodRef("default", "noted", uid), {"c": "3", "a/b": None})
            with pytest.raises(ClusterError) as refusal:
                await pods.annotate(PodRef("default", "noted", "another"), {"a/b": "4"})
            pod = await pods.get(PodRef("default", "noted"))
            assert pod is not None
            assert (pod.metadata.annotations, pod.metadata.labels) == ({"c": "3"}, {"l": "2"})
            assert refusal.value.status == 409
            assert await pods.get(PodRef("default", "never-was")) is None

    asyncio.run(main())


def test_extended_resources_are_published_and_removed(cluster: Real) -> None:
    async def main() -> None:
        async with cluster.client() as client:
            await add_node(client, "published")
            nodes = NodeClient(client)
            await nodes.publish("published", {"volcano.sh/vgpu-number": "8", "x.io/y": "4k"})
            gone = {"x.io/y": None, "never.io/was": None}
            await nodes.publish("published", gone, {"x.io/mark": "1", "x.io/none": None})
            node = await nodes.get("published")
            assert node is not None
            for amounts in (node.status.capacity, node.status.allocatable):
                assert (amounts or {})["volcano.sh/vgpu-number"] == "8"
                assert "x.io/y" not in (amounts or {})
            assert (node.status.capacity or {})["cpu"] == "4"
            assert (node.metadata.annotations or {})["x.io/mark"] == "1"

    asyncio.run(main())


def test_a_node_lock_has_one_owner(cluster: Real) -> None:
    async def main() -> None:
        async with cluster.client() as client:
            await add_node(client, "locked")
            nodes, pods = NodeClient(client), PodClient(client)
            await new_pod(client, "first")
            await new_pod(client, "second")
            locks = NodeLockClient(nodes, pods)

            taken = await asyncio.gather(
                *(locks.acquire("locked", PodRef("default", name)) for name in ("first", "second")),
                return_exceptions=True,
            )
            refused = [each for each in taken if each is not True]
            assert [type(each) for each in refused] == [LockedError]
            owner, loser = ("first", "second") if taken[0] is True else ("second", "first")

            await locks.acquire("locked", PodRef("default", owner))
            await locks.release("locked", PodRef("default", loser))
            assert f",default,{owner}" in await lock_of(nodes)
            late = NodeLockClient(nodes, pods, lambda: datetime.now(UTC) + timedelta(minutes=6))
            await late.acquire("locked", PodRef("default", loser))
            assert f",default,{loser}" in await lock_of(nodes)
            await client.delete(PODS.path(loser, "default"), {"gracePeriodSeconds": 0})
            await locks.acquire("locked", PodRef("default", owner))
            assert f",default,{owner}" in await lock_of(nodes)
            await nodes.annotate("locked", {KEY: "nonsense"})
            await locks.acquire("locked", PodRef("default", owner))
            await locks.release("locked", PodRef("default", owner))
            assert await lock_of(nodes) == ""

    asyncio.run(main())


async def lock_of(nodes: NodeClient) -> str:
    node = await nodes.get("locked")
    return "" if node is None else (node.metadata.annotations or {}).get(KEY, "")


def test_a_kind_that_is_not_installed_is_empty_until_it_is(cluster: Real) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "devices.scheduling.koordinator.sh"},
        "spec": {
            "group": "scheduling.koordinator.sh",
            "scope": "Cluster",
            "names": {"plural": "devices", "singular": "device", "kind": "Device"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }

    async def main() -> None:
        async with cluster.client() as client:
            handler = RecordingHandler()
            reflector = Reflector(
                client,
                Selection(DEVICES, optional=True),
                Pod,
                handler,
                settings=replace(SETTINGS, absent=0.2),
            )
            task = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.ready.wait(), 30)
            kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await client.create(kinds, definition)
            body = {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "Device",
                "metadata": {"name": "node-1"},
            }

            async def is_created() -> bool:
                with contextlib.suppress(ClusterError):
                    await client.create(DEVICES.collection(), body)
                    return True
                return False

            await until(is_created)
            await until(lambda: "node-1" in handler.pods)
            await client.delete(f"{kinds}/devices.scheduling.koordinator.sh")
            await until(lambda: not handler.pods)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_repeated_events_become_one_with_a_count(cluster: Real) -> None:
    async def main() -> None:
        async with cluster.client() as client:
            uid = await new_pod(client, "handler")
            pod = await PodClient(client).get(PodRef("default", "handler"))
            assert pod is not None
            events = EventRecorder(client, "dragoman-0", every=0.3)
            task = asyncio.create_task(events.run())
            for _ in range(500):
                events.emit(EventSubject.pod(pod), "NoCards", "no card is free", kind="Warning")
                await asyncio.sleep(0.002)
            events.emit(EventSubject.pod(pod), "NoCards", "no card is left", kind="Warning")
            events.emit(EventSubject("Node", "target"), "Drift", "é" * 2000)

            counts: dict[str, int] = {}
            async with asyncio.timeout(30):
                while sum(counts.values()) < 502:
                    found = json.loads(await client.get(EVENTS.collection("default")))["items"]
                    mine = [e for e in found if e["regarding"].get("uid") == uid]
                    drifts = [e for e in found if e["reason"] == "Drift"]
                    counts = {
                        each["note"]: (each.get("series") or {}).get("count", 1)
                        for each in (*mine, *drifts)
                    }
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

            assert sum(counts.values()) == 502
            assert counts["no card is free"] > 200
            assert (len(mine), len(drifts)) == (2, 1)
            assert events.dropped == 0

    asyncio.run(main())


CANDIDATE = """
# Prints "waits" once it has seen that another holds the lease, and "leads" once it holds it.
import asyncio, signal, sys
from pathlib import Path
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeconfigSource, load
from adapters.cluster.objects.lease import Election, LeaseTiming

class Client(KubeClient):
    waits = False

    async def find(self, path):
        lease = await super().find(path)
        if lease is not None and not self.waits:
            self.waits = True
            print("waits", flush=True)
        return lease

async def main():
    async with Client(load(KubeconfigSource(kubeconfig=Path(sys.argv[1])))) as client:
        term = LeaseTiming(*map(float, sys.argv[4:]))
        election = Election(client, "default", sys.argv[2], sys.argv[3], term)
        async def work():
            print("leads", flush=True)
            await asyncio.sleep(3600)
        await election.run(work)

# A shell that starts the tests in the background lets all of them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""
# Seconds, as in ``LeaseTiming``: of a holder that releases the lease, within the time of a retry,
# and of a holder that is killed.
LONG, SHORT = ("60", "30", "5"), ("3", "2", "0.2")


def test_a_lease_passes_between_processes_when_its_holder_stops_or_dies(cluster: Real) -> None:
    async def candidate(name: str, term: tuple[str, ...]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", CANDIDATE, str(cluster.kubeconfig), "passing", name, *term),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def says(process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout is not None
        return await asyncio.wait_for(process.stdout.readline(), 30)

    async def lease() -> LeaseSpec:
        async with cluster.client() as client:
            found = await client.get(LEASES.path("passing", "default"))
        return msgspec.json.decode(found, type=LeaseObject).spec

    async def main() -> None:
        first = await candidate("first", LONG)
        assert await says(first) == b"leads\n"
        second = await candidate("second", SHORT)
        assert await says(second) == b"waits\n"
        first.send_signal(signal.SIGINT)
        # Within 30 s: the lease is given back, or it would last for 60.
        assert await says(second) == b"leads\n"
        third = await candidate("third", SHORT)
        assert await says(third) == b"waits\n"
        second.kill()
        await second.wait()
        dead = await lease()
        assert await says(third) == b"leads\n"
        taken = await lease()
        third.kill()
        for process in (first, second, third):
            await process.communicate()
        assert dead.holder_identity == "second"
        assert (taken.holder_identity, taken.lease_transitions) == ("third", 2)
        waited = moment(taken.acquire_time) - moment(dead.renew_time)
        assert waited > timedelta(seconds=3), "a dead holder keeps its lease for the duration"

    def moment(text: str | None) -> datetime:
        return datetime.fromisoformat(text or "")

    asyncio.run(main())


def test_a_holder_that_loses_the_lease_stops_working(cluster: Real) -> None:
    async def main() -> None:
        stopped = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                stopped.set()

        async with cluster.client() as client:
            election = Election(client, "default", "stolen", "me", TERM)
            task = asyncio.create_task(election.run(work))
            await until(lambda: election.leading)
            path = LEASES.path("stolen", "default")
            await client.patch(path, {"spec": {"holderIdentity": "thief"}})
            await asyncio.wait_for(stopped.wait(), 30)
            assert not election.leading
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert json.loads(await client.get(path))["spec"]["holderIdentity"] == "thief"

    asyncio.run(main())


@pytest.mark.parametrize("year", [1990, 2090])
def test_a_holder_with_a_wrong_clock_is_believed_for_its_duration_and_no_longer(
    cluster: Real, year: int
) -> None:
    spec = {
        "holderIdentity": "stranger",
        "leaseDurationSeconds": 2,
        "renewTime": f"{year}-01-01T00:00:00.000000Z",
    }

    async def main() -> float:
        async with cluster.client() as client:
            body = {"metadata": {"name": f"skewed-{year}"}, "spec": spec}
            await client.create(LEASES.collection("default"), body)
            election = Election(client, "default", f"skewed-{year}", "me", TERM)
            began = asyncio.get_running_loop().time()
            task = asyncio.create_task(election.run(lambda: asyncio.sleep(3600)))
            await until(lambda: election.leading, 30)
            taken = asyncio.get_running_loop().time() - began
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return taken

    assert 2 <= asyncio.run(main()) < 30


def test_an_election_ends_with_its_work_and_releases_the_lease(cluster: Real) -> None:
    async def main() -> str:
        async with cluster.client() as client:
            election = Election(client, "default", "short", "me", TERM)
            await asyncio.wait_for(election.run(lambda: asyncio.sleep(0.1)), 30)
            path = LEASES.path("short", "default")
            holder: str = json.loads(await client.get(path))["spec"].get("holderIdentity", "")
            return holder

    assert asyncio.run(main()) == ""


def test_nodes_are_watched_too(cluster: Real) -> None:
    async def main() -> KubeNode:
        nodes: dict[str, KubeNode] = {}

        class Sink(RecordingHandler):
            def on_update(self, thing: KubeNode) -> None:  # type: ignore[override]
                nodes[thing.metadata.name] = thing

        async with cluster.client() as client:
            reflector = Reflector(client, Selection(NODES), KubeNode, Sink(), settings=SETTINGS)
            task = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.ready.wait(), 30)
            await add_node(client, "watched")
            await until(lambda: "watched" in nodes)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return nodes["watched"]

    watched = asyncio.run(main())

    assert watched.status.capacity == {"cpu": "4", "pods": "110"}
