"""The service in a cluster: its check at the start, and all its tasks together."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from adapters.cluster.tests.objects import Objects
from adapters.cluster.tests.server import Reply, Request, Step, ok, refusal, serving
from adapters.dialects.allocation_record import MARK
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.in_cluster.tasks import InCluster
from adapters.service.in_cluster.watches import WATCHED, Sync
from adapters.service.observe.decision_log import logger
from adapters.service.reconcile.preemptor import DELAY
from adapters.service.runtime import ServiceRuntime
from adapters.service.settings.sections import DraSettings, MovesSettings, PreemptionSettings
from adapters.service.settings.settings import Settings, SettingsError
from adapters.wire.records.ledger import encode
from core.durations import SECOND
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger


def kubeconfig(folder: Path, server: str) -> Path:
    file = folder / "kubeconfig"
    entry = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
    file.write_text(json.dumps(entry))
    return file


@pytest.mark.parametrize(("enabled", "requests"), [(True, 1), (False, 0)])
def test_plans_of_moves_are_read_for_people_only_where_plans_are_carried_out(
    tmp_path: Path, enabled: bool, requests: int
) -> None:
    async def main() -> int:
        async with serving(ok({"items": [{"metadata": {"name": "p"}}]})) as server:
            config, moves = kubeconfig(tmp_path, server.server), MovesSettings(enabled=enabled)
            settings = Settings(store="kubernetes", kubeconfig=config, moves=moves)
            in_cluster = InCluster(settings, logger("error", "json"))
            try:
                plans = in_cluster.cluster().plans
                found = [] if plans is None else await plans()
                assert len(found) == requests
            finally:
                await in_cluster.close()
            return len(server.requests)

    assert asyncio.run(main()) == requests


def checked(folder: Path, *steps: Step, claims: bool = False) -> list[str]:
    """Return the events that the service logs when it checks whether it can start."""
    capture = LogCapture()
    level = structlog.make_filtering_bound_logger("debug")
    log = structlog.wrap_logger(None, processors=[capture], wrapper_class=level)

    async def main() -> None:
        async with serving(*steps) as server:
            settings = Settings(
                store="kubernetes",
                kubeconfig=kubeconfig(folder, server.server),
                dra=DraSettings(claims=claims),
            )
            in_cluster = InCluster(settings, log)
            try:
                await in_cluster.check()
            finally:
                await in_cluster.close()

    asyncio.run(main())
    return [row["event"] for row in capture.entries]


def test_a_cluster_without_our_custom_resource_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="install configs"):
        checked(tmp_path, refusal(404, {"kind": "Status", "code": 404, "reason": "NotFound"}))


def test_a_cluster_that_does_not_answer_the_check_is_logged_and_no_error(tmp_path: Path) -> None:
    assert checked(tmp_path, refusal(403, {"kind": "Status", "code": 403})) == [
        "cluster.unreachable"
    ]
    assert checked(tmp_path, ok({"items": []})) == []


def test_a_server_without_the_api_of_claims_is_logged_where_claims_count(tmp_path: Path) -> None:
    there, absent = ok({"items": []}), refusal(404, {"kind": "Status", "code": 404})

    assert checked(tmp_path, there, absent, claims=True) == ["dra.unavailable"]
    assert checked(tmp_path, there, there, claims=True) == []
    forbidden = refusal(403, {"kind": "Status", "code": 403})
    assert checked(tmp_path, there, forbidden, claims=True) == ["cluster.unreachable"]


class WatchedObjects(Objects):
    """The objects, with a watch of each collection that begins with what there is."""

    async def __call__(self, request: Request, reply: Reply) -> None:
        if "watch" not in request.query:
            await super().__call__(request, reply)
            return
        group, _, plural = request.path.rpartition("/")
        end = {"k8s.io/initial-events-end": "true"}
        bookmark = {"metadata": {"resourceVersion": "1", "annotations": end}}
        sent: dict[str, str] = {}
        await reply.begin()
        while True:
            for path, thing in [*self.at.items()]:
                version = thing["metadata"]["resourceVersion"]
                ours = path.startswith(group) and path.split("/")[-2] == plural
                if ours and sent.get(path) != version:
                    sent[path] = version
                    await reply.lines({"type": "ADDED", "object": thing})
            if bookmark:
                await reply.lines({"type": "BOOKMARK", "object": bookmark})
                bookmark = {}
            await asyncio.sleep(0.01)


@asynccontextmanager
async def following(
    objects: Objects, folder: Path, *, preempts: bool = False
) -> AsyncIterator[ServiceRuntime]:
    """Run all tasks of a service in the cluster of these objects."""
    async with serving(objects) as server:
        settings = Settings(
            store="kubernetes",
            kubeconfig=kubeconfig(folder, server.server),
            preemption=PreemptionSettings(enabled=preempts),
        )
        log = logger("error", "json")
        in_cluster = InCluster(settings, log)
        runtime = ServiceRuntime(settings, {}, in_cluster.store, in_cluster.cluster(), log)
        tasks = (*in_cluster.tasks(runtime), runtime.follow())
        running = [asyncio.create_task(each) for each in tasks]
        try:
            yield runtime
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await in_cluster.close()


class LateLedgers(WatchedObjects):
    """The objects, whose ledgers no watch shows before they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def __call__(self, request: Request, reply: Reply) -> None:
        if "watch" in request.query and request.path.endswith("/nodeledgers"):
            await self.released.wait()
        await super().__call__(request, reply)


def test_the_leader_repairs_nothing_before_it_knows_the_ledgers_and_the_agents(
    tmp_path: Path,
) -> None:
    """Without its agent's report a pod that has no cards yet counts as one with unknown cards."""
    cards = "GPU-0,10,81920,NVIDIA-A100,true,hami-core:"
    container = {
        "name": "main",
        "resources": {"limits": {"volcano.sh/vgpu-number": "1"}},
        "env": [{"name": MARK, "value": "v1"}],
    }
    pod = {
        "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": "Pending"},
    }
    node = {"name": "n1", "annotations": {"volcano.sh/node-vgpu-register": cards}}
    objects = LateLedgers()
    objects.put("/api/v1/nodes/n1", {"metadata": node})
    objects.put("/api/v1/namespaces/default/pods/a", pod)
    status: dict[str, list[object]] = {key: [] for key in ("cards", "problems")}
    path = "/apis/dragoman.dev/v1alpha1/nodeledgers/n1"
    empty = json.loads(encode(NodeLedger.of(Node("n1"))))
    objects.put(path, {"metadata": {"name": "n1"}, "spec": empty, "status": status})

    async def main() -> str:
        async with following(objects, tmp_path) as runtime, asyncio.timeout(20):
            while not runtime.leads() or WATCHED & runtime.service.readiness.awaited:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            assert objects.at[path]["spec"] == empty
            objects.released.set()
            while not objects.at[path]["spec"].get("allocations"):
                await asyncio.sleep(0.01)
            return runtime.metrics.text().decode()

    metrics = asyncio.run(main())

    assert 'dragoman_reconciler_repairs_total{kind="adopted_unread"} 0.0' in metrics
    assert 'dragoman_reconciler_repairs_total{kind="allocated_late"} 1.0' in metrics


def test_the_tasks_write_ledgers_adopt_bound_pods_and_make_the_service_ready(
    tmp_path: Path,
) -> None:
    cards = "GPU-0,10,81920,NVIDIA-A100,true,hami-core:"
    register = {"volcano.sh/node-vgpu-register": cards}
    limits = {"volcano.sh/vgpu-number": "1"}
    pod = {
        "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
    }
    objects = WatchedObjects()
    objects.put("/api/v1/nodes/n1", {"metadata": {"name": "n1", "annotations": register}})
    objects.put("/api/v1/namespaces/default/pods/a", pod)

    async def main() -> tuple[frozenset[str], list[str], list[str], str, list[bool]]:
        async with following(objects, tmp_path) as runtime, asyncio.timeout(20):
            service = runtime.service
            leads = [runtime.leads()]
            waited_for = service.readiness.awaited
            while service.readiness.awaited or not service.ledgers.inventory.get("n1"):
                await asyncio.sleep(0.01)
            while not runtime.leads():
                await asyncio.sleep(0.01)
            leads.append(runtime.leads())
            ledger = service.ledgers.inventory.get("n1")
            assert ledger is not None
            uuids = [card.uuid for card in ledger.node.cards]
            text = runtime.metrics.text().decode()
            return waited_for, uuids, [*ledger.allocations], text, leads

    waited_for, uuids, allocated, metrics, leads = asyncio.run(main())

    assert waited_for == {*WATCHED, Sync.ADOPTION, "ledgers"}
    assert (uuids, allocated) == (["GPU-0"], ["u1"])
    assert leads == [False, True]  # only then are metrics of cards exported
    assert 'dragoman_watch_staleness_seconds{watch="devices"}' in metrics
    assert "dragoman_reconciler_drift 1.0" in metrics
    assert 'dragoman_reconciler_repairs_total{kind="never_bound"} 0.0' in metrics


@pytest.mark.parametrize("preempts", [False, True])
def test_pods_are_evicted_only_where_preemption_is_enabled(tmp_path: Path, preempts: bool) -> None:
    register = {"volcano.sh/node-vgpu-register": "GPU-0,10,8192,NVIDIA-A100,true,hami-core:"}
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "5000"}
    containers = [{"name": "main", "resources": {"limits": limits}}]

    def a_pod(name: str, priority: int, **more: object) -> dict[str, object]:
        spec = {"containers": containers, "priority": priority}
        rejected = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        return {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {**spec, **more},
            "status": {"phase": "Pending", "conditions": [rejected]},
        }

    class Evicting(WatchedObjects):
        async def __call__(self, request: Request, reply: Reply) -> None:
            if request.path.endswith("/eviction"):
                evicted.append((request.path.split("/")[-2], "dryRun" in request.query))
                await reply.answer(201, {"kind": "Status", "status": "Success"})
                return
            await super().__call__(request, reply)

    evicted: list[tuple[str, bool]] = []
    objects = Evicting()
    objects.put("/apis/policy/v1/poddisruptionbudgets", {"items": []})
    objects.put("/api/v1/nodes/n1", {"metadata": {"name": "n1", "annotations": register}})
    objects.put("/api/v1/namespaces/default/pods/low", a_pod("low", 0, nodeName="n1"))
    objects.put("/api/v1/namespaces/default/pods/high", a_pod("high", 10))

    async def main() -> str:
        async with (
            following(objects, tmp_path, preempts=preempts) as runtime,
            asyncio.timeout(20),
        ):
            service = runtime.service
            while service.readiness.awaited or not service.ledgers.inventory.get("n1"):
                await asyncio.sleep(0.01)
            ask = {"Pod": objects.at["/api/v1/namespaces/default/pods/high"], "NodeNames": ["n1"]}
            answer = await KubeExtender(service).filter(json.dumps(ask).encode())
            assert json.loads(answer)["NodeNames"] == []
            await asyncio.sleep(DELAY / SECOND + 0.2)
            while preempts and len(evicted) < 2:
                await asyncio.sleep(0.01)
            return runtime.metrics.text().decode()

    metrics = asyncio.run(main())

    assert evicted == ([("low", True), ("low", False)] if preempts else [])
    assert ("dragoman_preemptions_waiting" in metrics) is preempts
