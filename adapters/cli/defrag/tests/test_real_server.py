"""``--execute`` and the rules about Jobs against a real API server and the real Job controller."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from adapters.cli.defrag.movable import eviction, failures_left
from adapters.cli.tests.builders import Plain, node, pod, volcano, volcano_bound
from adapters.cli.tests.command import as_plain, command
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.paths import JOBS, MOVE_PLANS, PODS, Resource
from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.real import Real, real
from adapters.wire.kube import Pod, pod_ref
from adapters.wire.kube_policy import JobObject
from adapters.wire.records.move_plan import MovePhase, MovePlanStatus, MoveStep

DEFINITION = Path(__file__).parents[4] / "configs/crd/moveplans.yaml"
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)

IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Real]:
    with real() as this:
        yield this


def a_plan() -> Plain:
    """A pod moves, so that another one fits."""
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "of-web", "controller": True}
    held = volcano_bound("a", 5000, ownerReferences=[owner])
    waits = pod("waits", volcano(9000), metadata={"namespace": "ml", "uid": "uid-waits"})
    nodes = [node(cards=1), node("node-b", cards=1)]
    return as_plain("defrag", things=[*nodes, held, waits, volcano_bound("b", 2000, on="node-b")])


async def carry_out(client: KubeClient, name: str) -> None:
    """What the service and the mover write, once there is a plan."""
    plans = MovePlanClient(client)
    begun = MoveStep(1, evicted_at="2026-11-26T12:00:00Z")
    done = msgspec.structs.replace(begun, replacement="a2", ready_at="2026-11-26T12:00:05Z")
    while (plan := await plans.get(name)) is None:
        await asyncio.sleep(0.1)
    for status in (
        MovePlanStatus(MovePhase.HELD),
        MovePlanStatus(MovePhase.EVICT, 1, steps=(MoveStep(1),)),
        MovePlanStatus(MovePhase.EVICTED, 1, steps=(begun,)),
        MovePlanStatus(MovePhase.PLACING, 1, steps=(done,)),
        MovePlanStatus(MovePhase.FINISHED, 1, steps=(done,)),
    ):
        plan = await plans.write_status(plan, status)
        await asyncio.sleep(0.5)


async def installed(client: KubeClient) -> None:
    """Create the kind, and wait until it is served."""
    await client.create(DEFINITIONS.collection(), yaml.safe_load(DEFINITION.read_text()))
    while await client.find(MOVE_PLANS.collection()) is None:
        await asyncio.sleep(0.1)


def test_a_plan_is_created_followed_and_found_again(cluster: Real, tmp_path: Path) -> None:
    plan = a_plan()
    name = plan["metadata"]["name"]
    file, other = tmp_path / "plan.json", tmp_path / "other.json"
    file.write_text(json.dumps(plan))
    other.write_text(json.dumps({**plan, "spec": {**plan["spec"], "podSeconds": 60}}))

    async def with_client(work: Callable[[KubeClient], Awaitable[None]]) -> None:
        async with cluster.client() as client:
            await work(client)

    def execute(what: Path) -> tuple[int, str, str]:
        done = command("defrag", "--execute", what, "--kubeconfig", cluster.kubeconfig)
        return done.exit_code, done.stdout, done.stderr

    assert "the cluster has no MovePlans" in execute(file)[2]

    asyncio.run(with_client(installed))
    kubectl = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", str(file))
    assert kubectl == f"moveplan.dragoman.dev/{name} created (server dry run)\n"
    others = threading.Thread(
        target=lambda: asyncio.run(with_client(lambda client: carry_out(client, name)))
    )
    others.start()
    first = execute(file)
    others.join()

    lines = (
        f"plan {name}: 1 move\n"
        "step 1 of 1: default/a of ReplicaSet/web from node-a to node-b: a2 is ready after 5 s\n"
        "ml/waits has its cards on node-a\n"
        f"plan {name}: finished\n"
    )
    assert first == (0, lines, "")
    assert execute(file) == (0, lines, f"note: plan {name} is there already, and goes on\n")
    code, _, problem = execute(other)
    assert code == 2
    assert "there is one of this name with another spec" in problem


JOBS_THAT_FAIL: list[Plain] = [
    {"backoffLimit": 0},
    {"backoffLimit": 0, "podReplacementPolicy": "Failed"},
    {"podFailurePolicy": {"rules": [{**IGNORED, "action": "FailJob"}]}},
    {"backoffLimitPerIndex": 0, "completionMode": "Indexed"},
]
JOBS_THAT_GO_ON: list[Plain] = [
    {"backoffLimit": 1},
    {"backoffLimit": 0, "podFailurePolicy": {"rules": [IGNORED]}},
    {"backoffLimitPerIndex": 1, "completionMode": "Indexed"},
]


def test_a_job_fails_by_the_eviction_of_a_pod_where_the_command_says_so(cluster: Real) -> None:
    specs = [*JOBS_THAT_FAIL, *JOBS_THAT_GO_ON]

    async def run() -> list[tuple[bool, bool]]:
        async with cluster.client() as client:
            return await asyncio.gather(
                *(evicted(client, f"job-{number}", spec) for number, spec in enumerate(specs))
            )

    said, failed = zip(*asyncio.run(run()), strict=True)
    assert failed == (True,) * len(JOBS_THAT_FAIL) + (False,) * len(JOBS_THAT_GO_ON)
    assert said == failed


async def evicted(client: KubeClient, name: str, spec: Plain) -> tuple[bool, bool]:
    """Whether a Job fails by the eviction of its pod: what the command says, and what happens."""
    container = {"name": "main", "image": "localhost/none"}
    template = {
        "spec": {"containers": [container], "restartPolicy": "Never", "schedulerName": "none"}
    }
    completions = {"completions": 1, "parallelism": 1}
    body = {"metadata": {"name": name}, "spec": {**spec, **completions, "template": template}}
    await client.create(JOBS.collection("default"), body)
    while not (pods := await pods_of(client, name)):
        await asyncio.sleep(0.1)
    (held,) = pods
    job = msgspec.json.decode(await client.get(JOBS.path(name, "default")), type=JobObject)
    counts, why = eviction(job, held)
    said = bool(why) or (counts and not failures_left(job))
    status = PODS.path(held.metadata.name, "default", "status")
    await client.patch(status, {"status": {"phase": "Running"}})
    await PodClient(client).evict(pod_ref(held))
    if "podFailurePolicy" in spec or "podReplacementPolicy" in spec:
        await client.patch(status, {"status": {"phase": "Failed"}})  # as a kubelet would
    async with asyncio.timeout(60):
        while True:
            found: Plain = json.loads(await client.get(JOBS.path(name, "default")))
            ends = {each["type"] for each in found["status"].get("conditions", ())}
            if ends & {"Failed", "FailureTarget"}:
                return said, True
            if {each.metadata.uid for each in await pods_of(client, name)} - {held.metadata.uid}:
                return said, False
            await asyncio.sleep(0.2)


async def pods_of(client: KubeClient, job: str) -> list[Pod]:
    body = await client.get(PODS.collection("default"), {"labelSelector": f"job-name={job}"})
    return msgspec.json.decode(body, type=PodList).items


class PodList(msgspec.Struct):
    items: list[Pod]
