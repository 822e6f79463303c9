"""Pods of four dialects and claims, from three schedulers at once on one node, coming and going.

At every moment the sum of what they were given fits every card: by what is written on pods and
claims, in each state that the API server had, and on a real node by what containers find inside.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.nodes import FAKE
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.names import DEVICES
from e2e.harness.node.image import NAME
from e2e.harness.node.real_node import RealNode, real_node
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.harness.oracles.observed_in_container import ContainerWatcher
from e2e.harness.oracles.pod_watcher import PodWatcher as PodWatcher
from e2e.harness.oracles.shared_cards import SharedCards
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KOORD,
    KUBE,
    VOLCANO,
    Planes,
    add_ready_nodes,
    prepare,
    start_schedulers,
    wait_for_cards,
)
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.schedulers.volcano import GROUPS
from e2e.harness.workloads.claims import (
    CLAIMS,
    DRIVER,
    GIB,
    RESOURCES,
    a_card,
    a_claim,
    a_class,
    a_pod,
    a_slice,
)
from e2e.harness.workloads.inventory import gpus, hami
from e2e.harness.workloads.storm import KINDS, described_by_all, random_pod

pytestmark = pytest.mark.timeout(400)

NODE = "storm"
CARDS = gpus(NODE, 8)
SCHEDULERS = (KUBE, KOORD, VOLCANO)
BATCHES, BATCH, GONE = 12, 20, 9
REAL_BATCHES, REAL_BATCH = 6, 8
ABANDONED = 150
"""Seconds until cards are free whose pod or claim exists and was not written after the commit.

The service waits 120 (``controller.GRACE``), because the write may still arrive.
"""

WHY = re.compile(
    "cards: |cards asked|[Ii]nsufficient|no cards|not enough|cluster is overused"
    "|cannot allocate all claims|dragoman: "
)
"""The fourth from the end is of Volcano's plugin overcommit, for pods that no extender is asked
about; the last two are of claims, by kube-scheduler and by the arbiter."""
CLAIM = "claim"
SHARING = (*KINDS, "hami")
"""On a node whose cards HAMi's device plugin has, too, in place of NVIDIA's."""
SHARED = {(DRIVER, NODE, f"gpu-{number}"): card for number, card in enumerate(CARDS)}
DRA = ("arbiter", "shadows")
"""What is on for claims."""


@pytest.fixture
def service(planes: Planes) -> Iterator[Service]:
    """The service and the three schedulers, as configured for it; the node is kwok's."""
    with planes() as bare:
        switches = {name: {"enabled": True} for name in DRA}
        plane = replace(bare, values={"dra": {"enabled": True, **switches}})
        prepare(plane)
        add_ready_nodes(plane, [described_by_all(NODE, CARDS, hami(CARDS))])
        devices = [a_card(number, card.uuid) for number, card in enumerate(CARDS)]
        plane.api.create(f"{RESOURCES}/resourceslices", a_slice(NODE, devices))
        plane.api.create(f"{RESOURCES}/deviceclasses", a_class())
        made = start(plane, claims=True, arbiter=True, shadows=True)
        with webhooks(made):
            yield made


def start(plane: ControlPlane, **dra: object) -> Service:
    """Start the service, which states the node's resources, and the schedulers."""
    made = start_service(plane, publish=["volcano", "koordinator", "metax", "hami"], dra=dra)
    wait_for_cards(plane, [NODE])
    start_schedulers(made)
    return made


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    """A random generator; ``--randomly-seed`` with the printed seed repeats it."""
    seed = request.config.getoption("randomly_seed", None) or time.time_ns()
    print(f"seed {seed}")
    return Random(seed)  # noqa: S311


def test_hundreds_of_pods_and_claims_from_three_schedulers_never_have_more_than_there_is(
    service: Service, random: Random
) -> None:
    plane = service.plane
    started = time.monotonic()
    deleted = 0
    shared = SharedCards(CARDS, SHARED)
    with shared.watching(plane.api), PodWatcher.of(plane.api, CARDS) as watcher:
        for number in range(BATCHES):
            pods = [
                one(plane, random, number * BATCH + place, (*SHARING, CLAIM))
                for place in range(BATCH)
            ]
            create_all(plane.api, CLAIMS, [random_claim(random, row) for row in claiming(pods)])
            create_all(plane.api, PODS, pods)
            time.sleep(random.random())
            for row in random.sample(list(watcher.pods.values()), min(GONE, len(watcher.pods))):
                grace = random.choice((0, 1))
                plane.api.delete(f"{PODS}/{row['metadata']['name']}?gracePeriodSeconds={grace}")
                deleted += 1
        with suppress(TimeoutError):  # they are named below
            within(90, lambda: not unexplained(plane.api))
        problems = watcher.problems()

    rows = plane.api.get(PODS)["items"]
    bound = sum("nodeName" in row["spec"] for row in rows)
    took = time.monotonic() - started
    by = Counter(row["spec"]["schedulerName"] for row in watcher.placed.values())
    kinds = Counter(row["metadata"]["name"].split("-")[0] for row in watcher.placed.values())
    print(
        f"{BATCHES * BATCH} pods, {deleted} deleted, {dict(by)} and {dict(kinds)} ever bound, "
        f"{bound} at the end, {len(rows) - bound} refused; "
        f"{len(shared.claims())} claims allocated, {shared.states} states looked at in {took:.0f} s"
    )
    assert problems == []
    assert shared.problems() == []
    assert len(shared.claims()) > BATCHES
    assert deleted > BATCHES
    assert all(by[plane.scheduler(name)] for name in SCHEDULERS), "each scheduler has placed some"
    assert kinds.keys() | {"plain"} == {*SHARING, CLAIM}, "each kind has shares placed"
    with suppress(TimeoutError):  # the difference is named below
        within(ABANDONED, lambda: held(plane, NODE).keys() == holders(plane.api))
    assert held(plane, NODE).keys() == holders(plane.api)
    assert unexplained(plane.api) == {}

    plane.api.delete(f"{PODS}?gracePeriodSeconds=0")
    within(60, lambda: not plane.api.get(PODS)["items"])
    plane.api.delete(CLAIMS)
    wait_until_free(plane, NODE)
    assert not any(card["usedSlots"] for card in service.get("/api/cards"))


def one(plane: ControlPlane, random: Random, number: int, kinds: Sequence[str] = KINDS) -> Object:
    kind = random.choice(kinds)
    if kind == CLAIM:
        return a_pod(f"{kind}-{number}", plane.scheduler(KUBE), f"{kind}-{number}")
    scheduler = plane.scheduler(random.choice(SCHEDULERS))
    return random_pod(random, kind, f"{kind}-{number}", scheduler)


def claiming(pods: Iterable[Object]) -> list[Object]:
    return [row for row in pods if row["spec"].get("resourceClaims")]


def random_claim(random: Random, row: Object) -> Object:
    """The claim of a pod, of its name."""
    compute = random.choice((0, 0, 10, 25, 50, 100))
    return a_claim(row["metadata"]["name"], random.choice((2, 8, 20, 40, 80)) * GIB, compute)


def holders(api: Api) -> set[str]:
    """Names of the claims that are allocated now, and of the bound pods without a claim."""
    claims = [row for row in api.get(CLAIMS)["items"] if "allocation" in row.get("status", {})]
    pods = [row for row in api.get(PODS)["items"] if "nodeName" in row["spec"]]
    without = [row for row in pods if not row["spec"].get("resourceClaims")]
    return {row["metadata"]["name"] for row in (*claims, *without)}


def said_of(api: Api) -> dict[str, str]:
    """The Events of the pods that wait, by the name of the pod.

    Volcano keeps a pod out of its queue when the sums of all that wait exceed what there is,
    calls no extender for it, and writes the Event for the pod's group.
    """
    messages: dict[str, list[str]] = {}
    for row in api.get("/api/v1/namespaces/default/events")["items"]:
        about = row["involvedObject"]
        messages.setdefault(about.get("uid", ""), []).append(f"{row['reason']}: {row['message']}")
    groups = {row["metadata"]["name"]: row["metadata"]["uid"] for row in api.get(GROUPS)["items"]}
    found = {}
    for row in api.get(PODS)["items"]:
        if "nodeName" not in row["spec"]:
            named = row["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name", "")
            uids = (row["metadata"]["uid"], groups.get(named, ""))
            said = [line for uid in uids for line in messages.get(uid, ())]
            found[row["metadata"]["name"]] = "\n".join([row["spec"]["schedulerName"], *said])
    return found


def unexplained(api: Api) -> dict[str, str]:
    """Pods that wait without an Event that says why, with their Events."""
    return {name: said for name, said in said_of(api).items() if not WHY.search(said)}


@pytest.fixture
def real(planes: Planes) -> Iterator[tuple[Service, RealNode]]:
    """A service, and a node of a real kubelet with the agent."""
    with planes() as plane:
        prepare(plane)
        with real_node(plane, plane.run, NODE) as node:
            describe(node)
            made = start(plane)
            with webhooks(made), node.agent():
                yield made, node


def describe(node: RealNode) -> None:
    """Let the node describe its cards in every dialect."""
    said = described_by_all(NODE, CARDS)
    metadata = {key: said.node["metadata"][key] for key in ("annotations", "labels")}
    metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k not in FAKE}
    amounts = said.node["status"]["capacity"]
    amounts = {name: amount for name, amount in amounts.items() if "/" in name}
    node.plane.api.merge(node.path, {"metadata": metadata})
    stated = {"capacity": amounts, "allocatable": amounts}
    node.plane.api.merge(f"{node.path}/status", {"status": stated})
    assert said.device is not None
    node.plane.api.create(DEVICES, said.device)


def test_what_containers_find_inside_never_exceeds_a_card(
    real: tuple[Service, RealNode], random: Random
) -> None:
    service, node = real
    api = service.plane.api
    with PodWatcher.of(api, CARDS) as watcher, ContainerWatcher.of(node.cri, CARDS) as inside:
        for number in range(REAL_BATCHES):
            for place in range(REAL_BATCH):
                api.create(PODS, runnable(one(service.plane, random, number * REAL_BATCH + place)))
            least = min(3 * number, 12)
            within(60, lambda least=least: len(running(api)) >= least)  # type: ignore[misc]
            for row in random.sample(running(api), min(3, least)):
                api.delete(f"{PODS}/{row['metadata']['name']}")
        with suppress(TimeoutError):
            within(60, lambda: not unexplained(api))
        unclear = unexplained(api)
        for name in said_of(api):
            api.delete(f"{PODS}/{name}")  # so that none is bound during the last look
        within(60, lambda: settled(api))
        problems = watcher.problems() + inside.problems()

    # A scheduler may still evict a pod, which is then no longer listed as running, in favor of one
    # that has gone; its container runs on.
    found = {row["metadata"]["uid"]: row for row in api.get(PODS)["items"]}
    minors = [card.uuid for card in CARDS]
    print(
        f"{len(inside.seen)} containers, {inside.most} at once, {inside.looks} looks inside, "
        f"{watcher.states} states; {len(found)} at the end"
    )
    assert problems == []
    assert unclear == {}
    inside.look()
    for container, uid in node.cri.running().items():
        shares, written = inside.seen[container], shares_of_pod(found[uid], minors)
        assert [(s.card, s.memory) for s in shares] == [(s.card, s.memory) for s in written]
    assert len(found) >= len(CARDS)


def runnable(row: Object) -> Object:
    """The pod, of the node's image; its object stays until the kubelet has ended its container."""
    row["spec"]["containers"][0] |= {"image": NAME, "imagePullPolicy": "Never"}
    row["spec"]["terminationGracePeriodSeconds"] = 1
    return row


def running(api: Api) -> list[Object]:
    rows = api.get(PODS)["items"]
    return [
        row
        for row in rows
        if row["status"].get("phase") == "Running" and "deletionTimestamp" not in row["metadata"]
    ]


def settled(api: Api) -> bool:
    """Whether all pods run, and none is being removed."""
    return len(api.get(PODS)["items"]) == len(running(api))
