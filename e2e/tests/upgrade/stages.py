"""The stages of a cluster that changes from the peers' own schedulers to Dragoman and back."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import PODS, bind, events, node_of, turn
from e2e.harness.names import CORE, LEDGERS, NAMESPACE, RATIO
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KOORD, KUBE, VOLCANO, starter
from e2e.harness.schedulers.schedulers import CRDS
from e2e.harness.schedulers.service import Service, install, start_service, webhooks, with_decisions
from e2e.harness.schedulers.stock_sharing import on, peers, runs, shares
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import gpus, volcano
from e2e.tests.upgrade.pods import (
    BEFORE,
    HAMI_PODS,
    HINT,
    KOORD_PODS,
    OF_VOLCANO,
    SGPU,
    VOLCANO_PODS,
    WHOLE,
    nodes,
)


@dataclass(frozen=True, slots=True)
class Before:
    """What ran under the peers.

    Attributes:
        pods: as they were, by name.
        lost: the card that a pod has and the node no longer registers.
    """

    pods: dict[str, Object]
    lost: str


@dataclass(frozen=True, slots=True)
class Ours:
    """What the service did with them.

    Attributes:
        adopted: what the ledgers said of the pods that ran before.
        changed: what differed then on those pods.
        bound: what the ledgers said of the pods that came later and fitted.
        refused: the Events of those that did not fit.
        problems: the Events of the node that has lost a card.
        unknown: Events of the pod whose cards no record names.
        metrics: of the service.
        pods: all that ran in the end.
    """

    adopted: dict[str, Object]
    changed: dict[str, str]
    bound: dict[str, Object]
    refused: dict[str, str]
    problems: list[str]
    unknown: list[str]
    metrics: str
    pods: dict[str, Object]


@dataclass(frozen=True, slots=True)
class After:
    """What the peers did when the service was gone.

    Attributes:
        changed: what differed on the pods that ran.
        pods: that the peers bound then.
        refused: that they refused.
    """

    changed: dict[str, str]
    pods: dict[str, Object]
    refused: dict[str, str]


def facts(plane: ControlPlane, names: Iterable[str]) -> dict[str, Object]:
    """All fields of pods, except how often they were written."""
    found = {}
    for name in names:
        this = plane.api.get(f"{PODS}/{name}")
        for key in ("resourceVersion", "managedFields"):
            this["metadata"].pop(key, None)
        found[name] = this
    return found


def differences(plane: ControlPlane, pods: Mapping[str, Object]) -> dict[str, str]:
    now = facts(plane, list(pods))
    return {
        name: f"{json.dumps(was)} is now {json.dumps(now[name])}"
        for name, was in pods.items()
        if now[name] != was
    }


def before_us(plane: ControlPlane) -> Before:
    """The peers bind pods; then a card of one node is lost."""
    api = plane.api
    with peers(plane, OF_VOLCANO):
        for name, (node, limits) in VOLCANO_PODS.items():
            api.create(PODS, on(node, name, "volcano", limits))
        for name, (node, limits) in KOORD_PODS.items():
            made = on(node, name, "koord", limits)
            if name == "k-hint":
                made["metadata"]["annotations"][HINT] = '{"gpu":{"exclusivePolicy":"PCIeLevel"}}'
            api.create(PODS, made)
        for name, (node, limits, record) in HAMI_PODS.items():
            api.create(PODS, on(node, name, "hami", limits))
            bind(api, name, node, record | ({"hami.io/vgpu-node": node} if record else {}))
        within(90, lambda: all(runs(plane, name) for name in BEFORE))
    pods = facts(plane, BEFORE)
    for name, found in pods.items():
        print(name, found["metadata"]["annotations"])
    (lost,) = shares(pods["v-lost"])
    kept = [card for card in gpus("gpu-lost", 2) if card.uuid != lost[0]]
    api.merge("/api/v1/nodes/gpu-lost", {"metadata": {"annotations": volcano(kept).annotations}})
    return Before(pods, lost[0])


def everything(plane: ControlPlane) -> dict[str, Object]:
    rows: dict[str, Object] = {}
    for described_node in nodes():
        rows |= held(plane, described_node.node["metadata"]["name"])
    return rows


def with_us(plane: ControlPlane, before: Before) -> Ours:
    """The service takes over, pods come, and the service goes again."""
    install(plane)
    service = start_service(plane)
    all_are_there = partial(within, 60, lambda: set(BEFORE) <= everything(plane).keys())
    seconds = with_decisions(service, all_are_there)
    print(f"all pods were in the ledgers {seconds:.1f} s after the service was ready")
    adopted = everything(plane)
    changed = differences(plane, before.pods)
    within(30, lambda: bool(drift(plane)) and bool(unknown(plane)))
    problems, of_unknown = drift(plane), unknown(plane)
    schedulers = (
        starter(service, VOLCANO),
        starter(service, KOORD, name="koord"),
        starter(service, KUBE, name="kube"),
    )
    with webhooks(service):
        with turn(schedulers[0], plane), turn(schedulers[1], plane), turn(schedulers[2], plane):
            bound = come(
                service,
                on("gpu-v", "n-volcano", "volcano", {NUMBER: "1", MEMORY: WHOLE}),
                on("gpu-k", "n-koord", "koord", {CORE: "100", RATIO: "100"}),
                on("gpu-m", "n-metax", "kube", {SGPU: "1"}),
                on("gpu-h", "n-beside-hami", "volcano", {NUMBER: "1", MEMORY: WHOLE}),
                on("gpu-lost", "n-beside-lost", "volcano", {NUMBER: "1", MEMORY: WHOLE}),
            )
            whole = volcano(gpus("gpu-lost", 2)).annotations
            plane.api.merge("/api/v1/nodes/gpu-lost", {"metadata": {"annotations": whole}})
            within(30, lambda: len(ledger(plane, "gpu-lost")["cards"]) == 2)
            refused = stay_away(
                service,
                on("gpu-v", "x-volcano", "kube", {NUMBER: "1", MEMORY: WHOLE}),
                on("gpu-k", "x-koord", "koord", {CORE: "200", RATIO: "200"}),
                on("gpu-m", "x-metax", "kube", {SGPU: "1"}),
                on("gpu-h", "x-hami", "kube", {NUMBER: "1", MEMORY: WHOLE}),
                on("gpu-p", "x-plain", "kube", {NUMBER: "1", MEMORY: "10"}),
                on("gpu-lost", "x-lost", "kube", {NUMBER: "1", MEMORY: WHOLE}),
            )
        metrics = service.metrics()
    pods = facts(plane, [*BEFORE, *bound])
    uninstall(service)
    return Ours(adopted, changed, bound, refused, problems, of_unknown, metrics, pods)


def drift(plane: ControlPlane) -> list[str]:
    """The Events of the node that has lost a card."""
    path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=gpu-lost"
    rows = plane.api.get(path)["items"]
    return [row["message"] for row in rows if row["reason"] == "LedgerDrift"]


def unknown(plane: ControlPlane) -> list[str]:
    """The Events of the pod whose cards no record names."""
    return [line for line in events(plane.api, "p-plain") if line.startswith("CardsUnknown")]


def come(service: Service, *pods: Object) -> dict[str, Object]:
    """Pods that fit: what the ledgers say of them when they run."""
    plane = service.plane
    for made in pods:
        plane.api.create(PODS, made)
    names = [made["metadata"]["name"] for made in pods]
    try:
        with_decisions(
            service, lambda: within(90, lambda: all(runs(plane, name) for name in names))
        )
    except AssertionError as late:
        raise AssertionError(f"{late}\n{[events(plane.api, name) for name in names]}") from late
    rows = everything(plane)
    return {name: rows[name] for name in names}


def stay_away(service: Service, *pods: Object) -> dict[str, str]:
    """Pods that do not fit: their Events. They are deleted again."""
    plane = service.plane
    for made in pods:
        plane.api.create(PODS, made)
    names = [made["metadata"]["name"] for made in pods]
    found = refusals(plane, names)
    for name in names:
        plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    return found


def refusals(plane: ControlPlane, names: list[str]) -> dict[str, str]:
    def failed(name: str) -> str:
        lines = events(plane.api, name)
        return next((line for line in lines if line.startswith("FailedScheduling")), "")

    within(90, lambda: all(failed(name) for name in names))
    assert [name for name in names if node_of(plane.api, name)] == []
    return {name: failed(name) for name in names}


def uninstall(service: Service) -> None:
    """Uninstall as docs/guides/upgrade.md says, after the webhooks and schedulers' settings."""
    plane = service.plane
    assert service.stop() == 0
    for node in nodes():
        plane.api.delete(f"{LEDGERS}/{node.node['metadata']['name']}")
    plane.api.delete(f"{CRDS}/nodeledgers.dragoman.dev")
    plane.api.delete(f"/api/v1/namespaces/{NAMESPACE}")


def after_us(plane: ControlPlane, ours: Ours) -> After:
    """The peers' own settings are back."""
    api = plane.api
    with peers(plane, OF_VOLCANO):
        half = {CORE: "50", RATIO: "50"}
        fitting = [
            on("gpu-v", "s-volcano", "volcano", {NUMBER: "1", MEMORY: "77000"}),
            on("gpu-k", "s-koord-1", "koord", half),
            on("gpu-k", "s-koord-2", "koord", half),
        ]
        names = [made["metadata"]["name"] for made in fitting]
        for made in fitting:
            api.create(PODS, made)
        within(90, lambda: all(runs(plane, name) for name in names))
        api.create(PODS, on("gpu-k", "s-koord-3", "koord", half))
        refused = refusals(plane, ["s-koord-3"])
        changed = differences(plane, ours.pods)
    return After(changed, facts(plane, names), refused)
