"""Every pod of the three guides under its own stock scheduler, from pending to a free card again.

The nodes are real: a kubelet registers each, containerd starts the containers, and the node agent
gives them what the ledger says. The pods are those of ``configs/examples``, unchanged: the images
that they name are there under their names, and hold the tests' own. Stand-ins are the cards, which
are other device nodes, and the network, which leads nowhere. The schedulers have the
configurations of ``configs``, with the service's address changed.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.prometheus import start_prometheus
from e2e.harness.cluster.ready_cluster import PODS, events, node_of
from e2e.harness.names import DEVICES, LEDGERS
from e2e.harness.node.real_node import LIBRARIES, RealNode, real_node
from e2e.harness.oracles.expected import (
    expected_devices,
    expected_env,
    granted_shares,
    inventory_card,
    slices_in_groups,
)
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.configured import CONFIGS
from e2e.harness.schedulers.full_stack import KUBE, Planes, prepare, start_schedulers
from e2e.harness.schedulers.service import (
    Service,
    held,
    ledger,
    start_service,
    webhooks,
    with_decisions,
)
from e2e.tests.guides.agent_pod import agent_pod, asked
from e2e.tests.guides.expected import EITHER, GUIDES, RECORD_CHECKS
from e2e.tests.guides.monitored import (
    alerts,
    driver,
    provoke_refusals,
    record_uses,
    scraped,
    wait_for_data,
)

pytestmark = pytest.mark.timeout(300)

MIB, GIB = 1 << 20, 1 << 30
IMAGES = (
    "docker.io/nvidia/cuda:9.0-devel",
    "docker.io/nvidia/cuda:11.8.0-base-ubuntu22.04",
    "docker.io/library/ubuntu:22.04",
)
HAMI = "volcano-hami-core"
STATED = ("volcano", "koordinator", "metax", "hami")
"""Whose resources the service states for the nodes, which have no device plugin."""


@dataclass(frozen=True, slots=True)
class Way:
    """The cluster with its two nodes, three schedulers and the service, and the agents' port."""

    plane: ControlPlane
    service: Service
    nodes: tuple[RealNode, ...]
    monitor: int


@pytest.fixture(scope="module")
def way(planes: Planes) -> Iterator[Way]:
    with ExitStack() as stack:
        plane = stack.enter_context(planes())
        runs = (plane.run, stack.enter_context(run()))
        prepare(plane)
        with suppress(ApiError):  # it is there where Volcano is installed
            plane.api.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
        names = ("real-1", "real-2")
        nodes = tuple(
            stack.enter_context(real_node(plane, each, name))
            for each, name in zip(runs, names, strict=True)
        )
        for node in nodes:
            node.runtime.name_image(*IMAGES)
        (port,) = free_ports(1)
        service = start_service(plane, publish=list(STATED), agentPort=port)
        start_schedulers(service)
        yield Way(plane, service, nodes, port)


def documents(guide: str) -> list[Object]:
    """The objects of a guide; the layouts of MIG cards are those of ``configs``."""
    text = (CONFIGS / "examples" / f"{guide}.yaml").read_text()
    found = [row for row in yaml.safe_load_all(text) if row]
    geometries = yaml.safe_load((CONFIGS / "mig-geometries.yaml").read_text())
    name = geometries["metadata"]["name"]
    return [geometries if row["metadata"]["name"] == name else row for row in found]


def of_kind(found: list[Object], kind: str) -> list[Object]:
    return [row for row in found if row["kind"] == kind]


@contextmanager
def staged(way: Way, found: list[Object]) -> Iterator[dict[str, RealNode]]:
    """Describe a guide's cards on the real nodes; these, by the guide's names of nodes."""
    api = way.plane.api
    rows = of_kind(found, "Node")
    nodes = {row["metadata"]["name"]: real for row, real in zip(rows, way.nodes, strict=False)}
    devices = {row["metadata"]["name"]: row for row in of_kind(found, "Device")}
    undo: list[tuple[str, Object]] = []
    for settings in of_kind(found, "ConfigMap"):
        space = settings["metadata"]["namespace"]
        api.create(f"/api/v1/namespaces/{space}/configmaps", settings)
    for row in rows:
        name = row["metadata"]["name"]
        node, said = (
            nodes[name],
            {key: row["metadata"].get(key) or {} for key in ("annotations", "labels")},
        )
        api.merge(node.path, {"metadata": said})
        nothing = {key: dict.fromkeys(each) for key, each in said.items()}
        undo.append((node.path, {"metadata": nothing}))
        if name in devices:
            metadata = devices[name]["metadata"] | {"name": node.name}
            api.create(DEVICES, devices[name] | {"metadata": metadata})
        whole = {k: v for k, v in row["status"]["capacity"].items() if k == "metax-tech.com/gpu"}
        if whole:  # stated by MetaX's device plugin alone
            stated = {"capacity": whole, "allocatable": whole}
            api.merge(f"{node.path}/status", {"status": stated})
            none = dict.fromkeys(whole)
            undo.append(
                (f"{node.path}/status", {"status": {"capacity": none, "allocatable": none}})
            )
    for node in nodes.values():
        within(20, lambda node=node: "cards" in ledger(way.plane, node.name))  # type: ignore[misc]
    try:
        yield nodes
    finally:
        for path, body in undo:
            api.merge(path, body)
        api.delete(DEVICES)
        for settings in of_kind(found, "ConfigMap"):
            metadata = settings["metadata"]
            api.delete(f"/api/v1/namespaces/{metadata['namespace']}/configmaps/{metadata['name']}")
        within(30, lambda: not any("cards" in ledger(way.plane, n.name) for n in way.nodes))


def instances(way: Way, node: RealNode) -> list[dict[str, Any]] | None:
    """The node's list of cards where some are cut."""
    record = ledger(way.plane, node.name)
    if all(card.get("mode") != "mig" for card in record["cards"]):
        return None
    return [inventory_card(record, card, str(node.host.folder)) for card in record["cards"]]


def phase(way: Way, name: str) -> str:
    return str(way.plane.api.get(f"{PODS}/{name}")["status"].get("phase"))


def wait_for(way: Way, names: list[str], what: Callable[[str], bool]) -> float:
    """Seconds until it is true of all these pods; a failure includes their Events."""
    try:
        return with_decisions(way.service, lambda: within(60, lambda: all(map(what, names))))
    except AssertionError as late:
        seen = {name: events(way.plane.api, name) for name in names if not what(name)}
        raise AssertionError(f"{late}\n{seen}") from late


def minors(found: list[Object], guides_node: str) -> list[str]:
    """The cards of a node by the number that Koordinator calls them."""
    rows = [row for row in of_kind(found, "Device") if row["metadata"]["name"] == guides_node]
    return [card["id"] for row in rows for card in row["spec"]["devices"]]


@pytest.mark.parametrize("guide", GUIDES)
def test_every_pod_of_the_guide_goes_the_whole_way(way: Way, guide: str) -> None:
    found, plane = documents(guide), way.plane
    pods = of_kind(found, "Pod")
    for row in pods:
        row["spec"]["schedulerName"] = plane.scheduler(row["spec"].get("schedulerName", KUBE))
        row["metadata"]["namespace"] = plane.api.home
    names = [row["metadata"]["name"] for row in pods]
    assert sorted(names) == sorted(GUIDES[guide]), "every pod of the file is looked at"
    with ExitStack() as stack:
        nodes = stack.enter_context(staged(way, found))
        for node in nodes.values():
            stack.enter_context(node.agent(instances(way, node)))
        for row in pods:
            if "nodeName" in row["spec"]:  # runs since before there was a Dragoman
                row["spec"]["nodeName"] = nodes[row["spec"]["nodeName"]].name
                plane.api.create(PODS, row)
        stack.callback(delete_all, plane)  # also what a failure leaves
        stack.enter_context(webhooks(way.service))
        for row in pods:
            name = row["metadata"]["name"]
            if "nodeName" not in row["spec"]:
                plane.api.create(PODS, row)
                bound = wait_for(way, [name], lambda each: node_of(plane.api, each) != "")
                print(f"{name}: bound to {node_of(plane.api, name)} after {bound:.1f} s")
        running = wait_for(way, names, lambda each: phase(way, each) == "Running")
        print(f"all run {running:.1f} s later")

        look(way, found, nodes, GUIDES[guide])
        if guide in RECORD_CHECKS:
            RECORD_CHECKS[guide]({name: plane.api.get(f"{PODS}/{name}") for name in names})

        delete_all(plane)
        free = within(30, lambda: not any(held(plane, node.name) for node in way.nodes))
        assert not any(card["usedMemoryMiB"] for card in way.service.get("/api/cards"))
        print(f"gone, and the cards free {free:.1f} s later")


@contextmanager
def staged_guide(way: Way) -> Iterator[RealNode]:
    """A guide without its pods and without an agent: its node."""
    with ExitStack() as stack:
        (node,) = stack.enter_context(staged(way, documents(HAMI))).values()
        stack.enter_context(webhooks(way.service))
        yield node


@contextmanager
def running_pods(way: Way) -> Iterator[None]:
    """The pods of this guide, which run."""
    try:
        for row in of_kind(documents(HAMI), "Pod"):
            row["spec"]["schedulerName"] = way.plane.scheduler(row["spec"]["schedulerName"])
            row["metadata"]["namespace"] = way.plane.api.home
            way.plane.api.create(PODS, row)
        wait_for(way, [*GUIDES[HAMI]], lambda each: phase(way, each) == "Running")
        yield
    finally:
        delete_all(way.plane)


@contextmanager
def running_share(way: Way) -> Iterator[RealNode]:
    """The node of a guide's pods, which run; its agent has the port of ``way.monitor``."""
    with staged_guide(way) as node, node.agent(monitor=way.monitor), running_pods(way):
        yield node


def test_a_prometheus_has_data_for_every_dashboard_and_evaluates_every_alert(way: Way) -> None:
    plane = way.plane
    with running_share(way) as node:
        record_uses(node, held(plane, node.name).values(), used=GIB)
        provoke_refusals(way.service, node.name)
        with driver(plane.run, node.name) as other:
            targets = scraped(way.service.clear, way.monitor, other)

            prometheus = start_prometheus(plane.run, targets, alerts())
            values = {"node": node.name, "namespace": plane.api.home, "model": ".*"}
            # Card-seconds count up to the latest news of the ledgers' watch, once a minute at rest.
            wait_for_data(prometheus, values, lambda: change_ledger(plane, node.name))
            within(30, lambda: {rule["health"] for rule in prometheus.rules()} == {"ok"})
            (used,) = prometheus.query('sum(dragoman_container_memory_used_bytes{pod="hami-pod"})')
            assert used["value"][1] == str(GIB)
            assert len(prometheus.query("up == 1")) == len(targets)


def test_a_person_sees_what_the_containers_use_and_how_they_are_limited(way: Way) -> None:
    plane = way.plane
    name = f"{plane.api.home}/hami-pod"
    with running_share(way) as node, agent_pod(plane, node.name, way.monitor):
        grants = held(plane, node.name).values()

        record_uses(node, grants, used=GIB)
        rows = asked(plane, "top", "pods", "--used", "-n", plane.api.home)["items"]
        assert {each["usedMiB"] for each in rows if each["pod"] == "hami-pod"} == {1024}
        within(30, lambda: used_on_page(way, node.name, name) == [1024])
        assert rules_broken(way, "pod", name) == set()

        record_uses(node, grants, used=12 * GIB)
        assert rules_broken(way, "pod", name) == {"use-above-grant"}

        record_uses(node, grants, used=GIB, limit=20 * GIB)
        assert rules_broken(way, "pod", name) == {"limit-above-grant"}


def test_an_audit_finds_containers_that_started_while_the_agent_was_away(way: Way) -> None:
    with (
        staged_guide(way) as node,
        agent_pod(way.plane, node.name, way.monitor),
        running_pods(way),
        node.agent(monitor=way.monitor),
    ):
        within(30, lambda: "container-without-share" in rules_broken(way, "node", node.name))


def used_on_page(way: Way, node: str, pod: str) -> list[int]:
    """MiB that a pod uses of each card, as the dashboard has them; none where it is not known."""
    found = way.service.get(f"/api/dashboard/used?nodes={node}")["nodes"]
    return [*found.get(node, {"pods": {}})["pods"].get(pod, {}).values()]


def rules_broken(way: Way, kind: str, name: str) -> set[str]:
    """The rules by which an audit finds something about a pod or a node."""
    return {
        each["rule"] for each in asked(way.plane, "audit")["findings"] if each.get(kind) == name
    }


def change_ledger(plane: ControlPlane, node: str) -> None:
    """Change nothing that counts."""
    note = {"metadata": {"annotations": {"e2e/time": str(time.monotonic_ns())}}}
    plane.api.merge(f"{LEDGERS}/{node}", note)


def delete_all(plane: ControlPlane) -> None:
    """Delete the pods, and wait until their containers have ended."""
    for row in plane.api.get(PODS)["items"]:
        plane.api.delete(f"{PODS}/{row['metadata']['name']}?gracePeriodSeconds=1")
    within(60, lambda: not plane.api.get(PODS)["items"])


def priority_env(container: Object) -> dict[str, str | None]:
    """What HAMi's webhook adds for HAMi-core. Source: pkg/device/nvidia/device.go, v2.10."""
    priority = container["resources"]["limits"].get("nvidia.com/priority")
    return {"CUDA_TASK_PRIORITY": priority}


def look(
    way: Way,
    found: list[Object],
    nodes: Mapping[str, RealNode],
    expected: Mapping[str, list[tuple[int, int]]],
) -> None:
    """Pod, ledger and container say the same of each pod, and what the guide says."""
    for name, shares in expected.items():
        row = way.plane.api.get(f"{PODS}/{name}")
        ((guides_node, node),) = [
            each for each in nodes.items() if each[1].name == row["spec"]["nodeName"]
        ]
        record = ledger(way.plane, node.name)
        held_by = held(way.plane, node.name)[name]
        grants = held_by["grants"]
        amounts = [(g["memory"] // MIB, g["compute"]) for g in grants]
        assert amounts in (shares, EITHER.get(name)), name

        written = shares_of_pod(row, minors(found, guides_node))
        # Volcano writes what was asked for, not what the slice has.
        if "slice" in grants[0] and held_by["dialect"] == "volcano":
            assert [s.card for s in written] == [s.card for s in slices_in_groups(grants)], name
        else:
            assert written == granted_shares(grants), name

        for container in row["spec"]["containers"]:
            mine = [g for g in grants if g["container"] == container["name"]]
            inside = node.inside(row, container["name"])
            env = expected_env(record, mine) | priority_env(container)
            assert {key: inside.env.get(key) for key in env} == env, name
            limits = [key for key in env if "LIMIT" in key and env[key] is not None]
            assert inside.libraries == (frozenset(LIBRARIES) if limits else frozenset()), name
            assert inside.devices == expected_devices(record, mine), name
            print(f"{name}: {', '.join(f'{k}={v}' for k, v in env.items() if v is not None)}")
