"""Real nodes with the cards of a guide, three stock schedulers and the service."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import yaml

from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledger
from e2e.harness.cluster.ready_cluster import PODS, events
from e2e.harness.names import DEVICES
from e2e.harness.node.real_node import RealNode, real_node
from e2e.harness.oracles.expected import inventory_card
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.configured import CONFIGS
from e2e.harness.schedulers.full_stack import Planes, prepare, start_schedulers
from e2e.harness.schedulers.service import Service, start_service, with_decisions

IMAGES = (
    "docker.io/nvidia/cuda:9.0-devel",
    "docker.io/nvidia/cuda:11.8.0-base-ubuntu22.04",
    "docker.io/library/ubuntu:22.04",
)
STATED = ("volcano", "koordinator", "metax", "hami")
"""Whose resources the service states for the nodes, which have no device plugin."""


@dataclass(frozen=True, slots=True)
class Way:
    """The cluster with its two nodes, three schedulers and the service, and the agents' port."""

    plane: ControlPlane
    service: Service
    nodes: tuple[RealNode, ...]
    monitor: int


@contextmanager
def whole_way(planes: Planes) -> Iterator[Way]:
    """Build it for a block.

    Raises:
        NotBuiltError: a part is not built.
        StartError: a part does not start.
    """
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
        by_plugins = {"metax-tech.com/gpu"} | ({"nvidia.com/gpu"} if name in devices else set())
        whole = {k: v for k, v in row["status"]["capacity"].items() if k in by_plugins}
        if whole:  # stated only by the vendors' device plugins; HAMi's are published
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


def delete_all(plane: ControlPlane) -> None:
    """Delete the pods, and wait until their containers have ended."""
    for row in plane.api.get(PODS)["items"]:
        plane.api.delete(f"{PODS}/{row['metadata']['name']}?gracePeriodSeconds=1")
    within(60, lambda: not plane.api.get(PODS)["items"])
