"""Every pod of the three guides under its own stock scheduler, from pending to a free card again.

The nodes are real: a kubelet registers each, containerd starts the containers, and the node agent
gives them what the ledger says. The pods are those of ``configs/examples``, unchanged: the images
that they name are there under their names, and hold the tests' own. Stand-ins are the cards, which
are other device nodes, and the network, which leads nowhere. The schedulers have the
configurations of ``configs``, with the service's address changed.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.prometheus import start_prometheus
from e2e.harness.cluster.ready_cluster import PODS, node_of
from e2e.harness.names import LEDGERS
from e2e.harness.node.real_node import LIBRARIES, RealNode
from e2e.harness.oracles.expected import (
    expected_devices,
    expected_env,
    granted_shares,
    slices_in_groups,
)
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KUBE, Planes
from e2e.harness.schedulers.service import webhooks
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
from e2e.tests.guides.whole_way import (
    Way,
    delete_all,
    documents,
    instances,
    minors,
    of_kind,
    phase,
    staged,
    wait_for,
    whole_way,
)

pytestmark = pytest.mark.timeout(300)

MIB, GIB = 1 << 20, 1 << 30
HAMI = "volcano-hami-core"


@pytest.fixture(scope="module")
def way(planes: Planes) -> Iterator[Way]:
    with whole_way(planes) as made:
        yield made


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
        before = {row["metadata"]["name"]: row["spec"].get("nodeName", "") for row in pods}
        within(30, lambda: all(not on or name in held(plane, on) for name, on in before.items()))
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
