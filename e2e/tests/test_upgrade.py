"""A cluster changes from the peers' own schedulers to Dragoman and back, with pods that run."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pytest

from e2e.harness.api import Object
from e2e.harness.bulk import create_all
from e2e.harness.cluster import PODS, bind, cluster, events, node_of, turn
from e2e.harness.control_plane import ControlPlane
from e2e.harness.inventory import Described, Saying, described, gpus, koordinator, metax, volcano
from e2e.harness.koordinator import CORE, DEVICES, RATIO
from e2e.harness.peers import CARD, HANDSHAKE, Share, on, peers, runs, shares
from e2e.harness.schedulers import (
    CRDS,
    define,
    start_koord_scheduler_alone,
    start_kube_scheduler,
    start_volcano_controllers,
    start_volcano_scheduler,
)
from e2e.harness.service import (
    LEDGERS,
    NAMESPACE,
    Service,
    explained,
    held,
    install,
    kube_like,
    ledger,
    start_service,
    volcano_like,
    webhooks,
)
from e2e.harness.volcano import MEMORY, NUMBER
from e2e.harness.waiting import within
from e2e.testbed import cache

pytestmark = pytest.mark.local

MIB = 1 << 20
CORES = "volcano.sh/vgpu-cores"
SGPU, VCORE, VMEMORY = (f"metax-tech.com/{word}" for word in ("sgpu", "vcore", "vmemory"))
HINT = "scheduling.koordinator.sh/device-allocate-hint"
WHOLE = str(CARD)
OF_VOLCANO = ("gpu-v", "gpu-lost", "gpu-h", "gpu-p")
VOLCANO_PODS: Mapping[str, tuple[str, dict[str, str]]] = {
    "v-share": ("gpu-v", {NUMBER: "1", MEMORY: "4000", CORES: "20"}),
    "v-memory-0": ("gpu-v", {NUMBER: "1", MEMORY: "0"}),
    "v-number-0": ("gpu-v", {NUMBER: "0"}),
    "v-lost": ("gpu-lost", {NUMBER: "1", MEMORY: "4000"}),
}
KOORD_PODS: Mapping[str, tuple[str, dict[str, str]]] = {
    "k-half": ("gpu-k", {CORE: "50", RATIO: "50"}),
    "k-whole": ("gpu-k", {CORE: "100", RATIO: "100"}),
    "k-hint": ("gpu-k", {CORE: "50", RATIO: "50"}),
}
# What HAMi v2.10.0 writes, by its own sources: its scheduler is not in the test bed.
HAMI_PODS: Mapping[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "m-share": (
        "gpu-m",
        {SGPU: "1", VCORE: "60", VMEMORY: "4"},
        {
            "hami.io/metax-sgpu-devices-allocated": "GPU-gpu-m-0,Metax-SGPU,4096,60:;",
            "metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-gpu-m-0","compute":60,'
            '"vRam":4096}]]',
        },
    ),
    "m-vcore-0": (
        "gpu-m",
        {SGPU: "1", VCORE: "0", VMEMORY: "8"},
        {
            "hami.io/metax-sgpu-devices-allocated": "GPU-gpu-m-0,Metax-SGPU,8192,0:;",
            "metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-gpu-m-0","vRam":8192}]]',
        },
    ),
    "m-without-vcore": (
        "gpu-m",
        {SGPU: "1"},
        {"hami.io/metax-sgpu-devices-allocated": "GPU-gpu-m-1,Metax-SGPU,81920,100:;"},
    ),
    "h-nvidia": (
        "gpu-h",
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        {"hami.io/vgpu-devices-allocated": "GPU-gpu-h-1,NVIDIA,3000,30:;"},
    ),
    "p-plain": ("gpu-p", {"nvidia.com/gpu": "1"}, {}),
}
BEFORE = (*VOLCANO_PODS, *KOORD_PODS, *HAMI_PODS)


@dataclass(frozen=True, slots=True)
class Before:
    """What ran under the peers.

    Attributes:
        pods: as they stood, by name.
        lost: the card that a pod has and the node no longer tells of.
    """

    pods: dict[str, Object]
    lost: str


@dataclass(frozen=True, slots=True)
class Ours:
    """What the service made of it.

    Attributes:
        adopted: what the ledgers said of the pods that ran before.
        changed: what differed then on those pods.
        bound: what the ledgers said of the pods that came later and fitted.
        refused: what was said of those that did not fit.
        problems: what the ledgers' keeper said of the node that has lost a card.
        told: events of the pod whose cards nobody can tell.
        metrics: of the service.
        pods: all that ran in the end.
    """

    adopted: dict[str, Object]
    changed: dict[str, str]
    bound: dict[str, Object]
    refused: dict[str, str]
    problems: list[str]
    told: list[str]
    metrics: str
    pods: dict[str, Object]


@dataclass(frozen=True, slots=True)
class After:
    """What the peers made of it when the service was gone.

    Attributes:
        changed: what differed on the pods that ran.
        pods: that the peers bound then.
        refused: that they refused.
    """

    changed: dict[str, str]
    pods: dict[str, Object]
    refused: dict[str, str]


def nodes() -> list[Described]:
    counts = {"gpu-v": 3, "gpu-lost": 2, "gpu-h": 2, "gpu-p": 2}
    handshake = Saying(annotations=HANDSHAKE)
    return [
        *(described(name, volcano(gpus(name, n)), handshake) for name, n in counts.items()),
        described("gpu-m", metax(gpus("gpu-m", 3))),
        described("gpu-k", koordinator(gpus("gpu-k", 4))),
    ]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    rows = nodes()
    with cluster([row.node for row in rows]) as plane:
        define(plane, cache.asset("koordinator", "crd"))
        create_all(plane.api, DEVICES, [row.device for row in rows if row.device is not None])
        start_volcano_controllers(plane)
        yield plane


def facts(plane: ControlPlane, names: Iterable[str]) -> dict[str, Object]:
    """All that stands on pods, but for how often they were written."""
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


@pytest.fixture(scope="module")
def before(plane: ControlPlane) -> Before:
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


def in_ledger(row: Object) -> list[Share]:
    return sorted(
        (grant["card"], grant["memory"] // MIB, grant["compute"]) for grant in row.get("grants", ())
    )


def everything(plane: ControlPlane) -> dict[str, Object]:
    rows: dict[str, Object] = {}
    for described_node in nodes():
        rows |= held(plane, described_node.node["metadata"]["name"])
    return rows


@pytest.fixture(scope="module")
def ours(plane: ControlPlane, before: Before) -> Ours:
    """The service takes over, pods come, and the service goes again."""
    install(plane)
    service = start_service(plane)
    all_are_there = partial(within, 60, lambda: set(BEFORE) <= everything(plane).keys())
    seconds = explained(service, all_are_there)
    print(f"all pods were in the ledgers {seconds:.1f} s after the service was ready")
    adopted = everything(plane)
    changed = differences(plane, before.pods)
    within(30, lambda: bool(drift(plane)) and bool(unknown(plane)))
    problems, told = drift(plane), unknown(plane)
    schedulers = (
        partial(start_volcano_scheduler, plane, volcano_like(service)),
        partial(
            start_koord_scheduler_alone,
            plane,
            kube_like(service, "koord-scheduler-config.yaml", "koord"),
        ),
        partial(
            start_kube_scheduler, plane, kube_like(service, "kube-scheduler-config.yaml", "kube")
        ),
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
    return Ours(adopted, changed, bound, refused, problems, told, metrics, pods)


def drift(plane: ControlPlane) -> list[str]:
    """What people are told of the node that has lost a card."""
    path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=gpu-lost"
    rows = plane.api.get(path)["items"]
    return [row["message"] for row in rows if row["reason"] == "LedgerDrift"]


def unknown(plane: ControlPlane) -> list[str]:
    """What people are told of the pod whose cards nobody can tell."""
    return [line for line in events(plane.api, "p-plain") if line.startswith("CardsUnknown")]


def come(service: Service, *pods: Object) -> dict[str, Object]:
    """Pods that fit: what the ledgers say of them when they run."""
    plane = service.plane
    for made in pods:
        plane.api.create(PODS, made)
    names = [made["metadata"]["name"] for made in pods]
    try:
        explained(service, lambda: within(90, lambda: all(runs(plane, name) for name in names)))
    except AssertionError as late:
        raise AssertionError(f"{late}\n{[events(plane.api, name) for name in names]}") from late
    rows = everything(plane)
    return {name: rows[name] for name in names}


def stay_away(service: Service, *pods: Object) -> dict[str, str]:
    """Pods that do not fit: what is said of them. They are deleted again."""
    plane = service.plane
    for made in pods:
        plane.api.create(PODS, made)
    names = [made["metadata"]["name"] for made in pods]
    told = refusals(plane, names)
    for name in names:
        plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    return told


def refusals(plane: ControlPlane, names: list[str]) -> dict[str, str]:
    def failed(name: str) -> str:
        lines = events(plane.api, name)
        return next((line for line in lines if line.startswith("FailedScheduling")), "")

    within(90, lambda: all(failed(name) for name in names))
    assert [name for name in names if node_of(plane.api, name)] == []
    return {name: failed(name) for name in names}


def uninstall(service: Service) -> None:
    """As docs/upgrade.md says; the webhooks and the schedulers' settings are gone by now."""
    plane = service.plane
    assert service.stop() == 0
    for node in nodes():
        plane.api.delete(f"{LEDGERS}/{node.node['metadata']['name']}")
    plane.api.delete(f"{CRDS}/nodeledgers.dragoman.dev")
    plane.api.delete(f"/api/v1/namespaces/{NAMESPACE}")


@pytest.fixture(scope="module")
def after(plane: ControlPlane, ours: Ours) -> After:
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


def test_every_pod_is_adopted_with_exactly_its_cards(before: Before, ours: Ours) -> None:
    readable = [name for name in BEFORE if name != "p-plain"]

    assert {name: in_ledger(ours.adopted[name]) for name in readable} == {
        name: shares(before.pods[name]) for name in readable
    }
    assert [name for name in readable if "unread" in ours.adopted[name]] == []
    assert {name: ours.adopted[name]["uid"] for name in BEFORE} == {
        name: before.pods[name]["metadata"]["uid"] for name in BEFORE
    }


def test_adoption_changes_nothing_on_a_pod_and_restarts_nothing(ours: Ours) -> None:
    assert ours.changed == {}


def test_new_pods_get_the_cards_that_nobody_had(before: Before, ours: Ours) -> None:
    taken = {card for name in BEFORE for card, _, _ in shares(before.pods[name])}
    given = {name: in_ledger(row) for name, row in ours.bound.items()}
    print(given)

    assert all(len(got) == 1 for got in given.values())
    assert taken.isdisjoint(card for got in given.values() for card, _, _ in got)
    assert given["n-metax"] == [("GPU-gpu-m-2", 81920, 100)]
    assert given["n-beside-hami"] == [("GPU-gpu-h-0", 81920, 0)]


def test_what_the_adopted_pods_leave_is_too_little_for_a_whole_card(ours: Ours) -> None:
    print(ours.refused)

    assert len(ours.refused) == 6


def test_a_card_of_nvidias_own_plugin_blocks_its_node_and_is_told(ours: Ours) -> None:
    row = ours.adopted["p-plain"]

    assert row["blocked"] == ["GPU-gpu-p-0", "GPU-gpu-p-1"]
    assert "without a record of its cards" in ours.told[0]
    assert "dragoman_allocations_unknown 1.0" in ours.metrics


def test_case_05_a_card_that_nobody_knows_is_held_told_and_never_free(
    before: Before, ours: Ours
) -> None:
    row = ours.adopted["v-lost"]

    assert in_ledger(row) == [(before.lost, 4000, 0)]
    assert any(f"holds card {before.lost}" in text for text in ours.problems)
    assert in_ledger(ours.bound["n-beside-lost"])[0][0] != before.lost
    assert "x-lost" in ours.refused  # the card came back, and was not free


def test_uninstalling_leaves_every_pod_as_it_was(after: After) -> None:
    assert after.changed == {}


def test_the_peers_count_what_was_bound_by_us(ours: Ours, after: After) -> None:
    every = {**ours.pods, **after.pods}
    use: dict[str, list[int]] = {}
    for name in (*VOLCANO_PODS, *KOORD_PODS, "n-volcano", "n-koord", *after.pods):
        for card, memory, compute in shares(every[name]):
            used = use.setdefault(card, [0, 0])
            used[0] += memory
            used[1] += compute

    assert max(memory for memory, _ in use.values()) <= 81920
    assert max(compute for _, compute in use.values()) <= 100
    assert "s-koord-3" in after.refused
