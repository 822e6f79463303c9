"""Stock schedulers, configured as in ``configs``, bind the pods of all three guides."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import PODS, cluster, events, node_of, turn, wait_for_nodes
from e2e.harness.names import DEVICES, LEDGERS
from e2e.harness.processes.process import StartError
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import wait_for_cards
from e2e.harness.schedulers.schedulers import (
    define,
    start_koord_scheduler_alone,
    start_kube_scheduler,
    start_volcano_controllers,
    start_volcano_scheduler,
)
from e2e.harness.schedulers.service import (
    Service,
    example,
    install,
    kube_like,
    start_service,
    volcano_like,
    webhooks,
    with_decisions,
)
from e2e.harness.workloads.inventory import Gpu, add_inventory, described, gpus, volcano
from e2e.testbed import cache

pytestmark = pytest.mark.local

GUIDES = (
    "volcano-hami-core",
    "koordinator-gpu-share",
    "metax-share",
    "metax-specific-card",
    "hami-share",
)
MIB = 1 << 20
DEVICE_ALLOCATED = {
    "gpu": [
        {
            "minor": 1,  # half of card 0 is taken by the pod that runs
            "resources": {
                "koordinator.sh/gpu-core": "50",
                "koordinator.sh/gpu-memory": "11520Mi",
                "koordinator.sh/gpu-memory-ratio": "50",
            },
            "id": "CARD",
        }
    ]
}
OF_SAMPLE_POD = {
    "metax-tech.com/gpu-devices-allocated": '[[{"uuid":"CARD","compute":60,"vRam":4096}]]',
    "hami.io/metax-sgpu-devices-allocated": "CARD,Metax-SGPU,4096,60:;",
    "hami.io/vgpu-node": "NODE",
}
WRITTEN: dict[str, dict[str, str]] = {
    "hami-pod": {
        "spec.nodeName": "gpu-hami-core",
        "volcano.sh/vgpu-ids-new": "CARD,NVIDIA,3000,50:",
        "volcano.sh/devices-to-allocate": "CARD,NVIDIA,3000,50:",
        "volcano.sh/vgpu-node": "NODE",
        "volcano.sh/bind-phase": "allocating",
    },
    "pod-example": {
        "spec.nodeName": "gpu-b",
        "scheduling.koordinator.sh/device-allocated": json.dumps(
            DEVICE_ALLOCATED, separators=(",", ":")
        ),
        "hami.io/vgpu-node": "NODE",
    },
    "sample-pod": OF_SAMPLE_POD,
    # HAMi's device plugin finds its pods by these.
    # Source: HAMi v2.10 pkg/util/util.go, GetPendingPod, and pkg/device/devices.go.
    "hami-default": {
        "spec.nodeName": "hami-share-node",
        "hami.io/vgpu-node": "NODE",
        "hami.io/vgpu-devices-to-allocate": "CARD,NVIDIA,3000,30:;",
        "hami.io/vgpu-devices-allocated": "CARD,NVIDIA,3000,30:;",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "TIME",
        "hami.io/vgpu-time": "TIME",
    },
    "sample-pod-specific": {
        **OF_SAMPLE_POD,
        "spec.nodeName": "metax-specific-node",
        "metax-tech.com/use-gpuuuid": "CARD",
    },
}
"""The records that a guide shows of its pod, in the terms of ``written``."""


@pytest.fixture(scope="module")
def guides() -> dict[str, Object]:
    """Every pod of the guides that waits for a scheduler, by its name."""
    return {
        document["metadata"]["name"]: document
        for guide in GUIDES
        for document in example(guide)
        if document["kind"] == "Pod" and "nodeName" not in document["spec"]
    }


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster with the nodes and devices of the guides, and with the pod that runs already."""
    found = [document for guide in GUIDES for document in example(guide)]
    with cluster([row for row in found if row["kind"] == "Node"]) as plane:
        define(plane, cache.asset("koordinator", "crd"))
        install(plane)
        create_all(plane.api, DEVICES, [row for row in found if row["kind"] == "Device"])
        running = [row for row in found if row.get("spec", {}).get("nodeName")]
        create_all(plane.api, PODS, running)
        wait_for_nodes(plane.api)
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Service:
    # vc-scheduler needs sums of all amounts, and HAMi's device plugin states none.
    made = start_service(plane, publish=["hami"])
    nodes = [row["metadata"]["name"] for row in plane.api.get("/api/v1/nodes")["items"]]
    wait_for_cards(plane, nodes)
    seconds = with_decisions(
        made, lambda: within(30, lambda: "running-example" in held(plane, "gpu-b"))
    )
    print(f"the pod that runs is in its ledger {seconds:.1f} s after all nodes were described")
    return made


def add(plane: ControlPlane, pod: Object, scheduler: str) -> str:
    """A guide's pod for this scheduler; its name."""
    name = f"{scheduler}-{pod['metadata']['name']}"
    spec = pod["spec"] | {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
    plane.api.create(PODS, {"metadata": pod["metadata"] | {"name": name}, "spec": spec})
    return name


def placed(service: Service, pod: Object, scheduler: str) -> Object:
    """A guide's pod when its scheduler has bound it; the ledger of its node has it, once."""
    plane = service.plane
    name = add(plane, pod, scheduler)
    try:
        seconds = with_decisions(
            service, lambda: within(60, lambda: node_of(plane.api, name) != "")
        )
    except AssertionError as late:
        raise AssertionError(f"{late}\n{events(plane.api, name)}") from late
    print(f"{name}: on {node_of(plane.api, name)} after {seconds:.1f} s")
    assert name in held(plane, node_of(plane.api, name))
    found = plane.api.get(f"{PODS}/{name}")
    assert found["metadata"]["uid"] == held(plane, node_of(plane.api, name))[name]["uid"]
    return found


def written(plane: ControlPlane, pod: Object) -> dict[str, str]:
    """Annotations, labels and node of a bound pod.

    In annotations and labels NODE is the pod's node, CARD its card in the ledger of that node, and
    TIME the one of HAMi's record: a record that names another card, node or time is seen.
    """
    meta, node = pod["metadata"], pod["spec"]["nodeName"]
    found: dict[str, str] = {**meta["annotations"], **meta.get("labels", {})}
    card, *_ = (grant["card"] for grant in held(plane, node)[meta["name"]]["grants"])
    words = {card: "CARD", node: "NODE"}
    if (time_of_record := found.get("hami.io/vgpu-time")) is not None:
        words[time_of_record] = "TIME"
    for term, word in words.items():
        found = {key: text.replace(term, word) for key, text in found.items()}
    return {"spec.nodeName": node, **found}


def gone(plane: ControlPlane, pod: Object) -> None:
    """Delete a pod, and wait until the ledger has released it."""
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    seconds = within(20, lambda: name not in held(plane, node))
    print(f"{name}: its cards were free again after {seconds:.2f} s")


def test_the_ledgers_say_what_the_nodes_say_and_what_runs_is_adopted(service: Service) -> None:
    cards = ledger(service.plane, "gpu-hami-core")["cards"]
    assert [card["memory"] for card in cards] == [11178 * MIB] * 8
    running = held(service.plane, "gpu-b")["running-example"]
    assert [grant["memory"] for grant in running["grants"]] == [11520 * MIB]
    assert "unread" not in running


def test_kube_scheduler_binds_the_pods_of_all_guides(
    service: Service, guides: dict[str, Object]
) -> None:
    plane = service.plane
    configuration = kube_like(service, "kube-scheduler-config.yaml", "kube")
    with turn(partial(start_kube_scheduler, plane, configuration), plane):
        for name, expected in WRITTEN.items():
            found = placed(service, guides[name], "kube")
            assert written(plane, found).items() >= expected.items()
            gone(plane, found)


def test_koord_scheduler_binds_its_guides_pod_and_the_others(
    service: Service, guides: dict[str, Object]
) -> None:
    plane = service.plane
    configuration = kube_like(service, "koord-scheduler-config.yaml", "koord")
    with turn(partial(start_koord_scheduler_alone, plane, configuration), plane):
        for name in ("pod-example", "hami-pod", "sample-pod", "hami-default"):
            found = placed(service, guides[name], "koord")
            assert written(plane, found).items() >= WRITTEN[name].items()
            gone(plane, found)


def test_vc_scheduler_plans_and_the_webhook_writes_the_cards_into_its_binding(
    service: Service, guides: dict[str, Object]
) -> None:
    plane = service.plane
    start_volcano_controllers(plane)
    start = partial(start_volcano_scheduler, plane, volcano_like(service))
    with webhooks(service), turn(start, plane):
        found = placed(service, guides["hami-pod"], "volcano")
        assert written(plane, found).items() >= WRITTEN["hami-pod"].items()
        assert found["spec"]["containers"][0]["env"] == [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
            {"name": "DRAGOMAN_SHARE", "value": "1"},
        ]
        two = placed(service, guides["hami-pod-two-cards"], "volcano")
        assert two["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"].count("NVIDIA,8000") == 2
        hamis = placed(service, guides["hami-default"], "volcano")
        assert written(plane, hamis).items() >= WRITTEN["hami-default"].items()
        gone(plane, hamis)
        verbs = {row["verb"] for row in service.get("/api/decisions")}
        assert {"allocate", "binding", "admit"} <= verbs
        gone(plane, found)
        gone(plane, two)


def test_the_old_collection_of_bindings_is_covered_too(
    service: Service, guides: dict[str, Object]
) -> None:
    plane = service.plane
    with webhooks(service):
        name = add(plane, guides["hami-pod"], "no-scheduler")
        target = {"apiVersion": "v1", "kind": "Node", "name": "gpu-hami-core"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        plane.api.create("/api/v1/namespaces/default/bindings", body)

        found = plane.api.get(f"{PODS}/{name}")
        assert written(plane, found).items() >= WRITTEN["hami-pod"].items()
        assert name in held(plane, "gpu-hami-core")
        gone(plane, found)


def test_settings_of_a_scheduler_that_come_later_are_learned(service: Service) -> None:
    """The geometries of the MIG guide are in a config map; after it, nodes are read again."""
    plane = service.plane
    found = {row["kind"]: row for row in example("volcano-mig") if row["kind"] != "Pod"}
    plane.api.create("/api/v1/nodes", found["Node"])
    within(20, lambda: "cards" in ledger(plane, "gpu-mig"))
    before = ledger(plane, "gpu-mig")
    settings = found["ConfigMap"]
    text = settings["data"]["device-config.yaml"]
    settings["data"]["device-config.yaml"] = text.replace("1g.5gb", "1g.other")
    maps = "/api/v1/namespaces/kube-system/configmaps"

    plane.api.create(maps, settings)

    within(20, lambda: "1g.other" in json.dumps(ledger(plane, "gpu-mig")))
    plane.api.merge(f"{maps}/{settings['metadata']['name']}", {"data": {"device-config.yaml": "["}})
    time.sleep(1)
    assert "1g.other" in json.dumps(ledger(plane, "gpu-mig")), "the earlier ones stay"
    plane.api.delete(f"{maps}/{settings['metadata']['name']}")
    within(20, lambda: ledger(plane, "gpu-mig")["cards"] == before["cards"])


def test_cards_come_fail_and_go_with_what_their_node_says(service: Service) -> None:
    plane = service.plane
    cards = gpus("changing", 2)
    add_inventory(plane.api, [described("changing", volcano(cards))])
    path = "/api/v1/nodes/changing"

    def says(*cards: Gpu) -> None:
        plane.api.merge(path, {"metadata": {"annotations": dict(volcano(cards).annotations)}})

    def healthy() -> list[bool]:
        rows = ledger(plane, "changing").get("cards", ())
        return [row.get("healthy", True) for row in rows]

    within(20, lambda: healthy() == [True, True])
    says(replace(cards[0], healthy=False), cards[1])
    within(20, lambda: healthy() == [False, True])
    says(cards[1])
    within(20, lambda: healthy() == [True])
    plane.api.merge(path, {"metadata": {"labels": {"nothing": "of-ours"}}})
    time.sleep(1)
    changes = ledger(plane, "changing")["changes"]
    plane.api.merge(path, {"metadata": {"labels": {"nothing": "at-all"}}})
    time.sleep(1)
    assert ledger(plane, "changing")["changes"] == changes, "nothing of ours has changed"
    plane.api.delete(path)
    within(20, lambda: ledger(plane, "changing") == {})


def test_a_ledger_that_was_deleted_is_made_again_from_what_runs(service: Service) -> None:
    plane = service.plane
    before = held(plane, "gpu-b")
    plane.api.delete(f"{LEDGERS}/gpu-b")

    seconds = within(30, lambda: len(held(plane, "gpu-b")) == len(before) + 1)
    print(f"made again after {seconds:.1f} s")
    again = ledger(plane, "gpu-b")["allocations"]
    of_pods = [row for row in again if row["uid"] != "deleted-ledger"]
    assert len(of_pods) == len(again) - 1  # the cards are closed for two minutes
    opened = {"spec": {"allocations": of_pods}}
    plane.api.merge(f"{LEDGERS}/gpu-b", opened)  # for the tests that follow
    grants = {name: row["grants"] for name, row in held(plane, "gpu-b").items()}
    assert grants == {name: row["grants"] for name, row in before.items()}


def test_every_watch_is_fresh_and_the_service_ends_in_order(service: Service) -> None:
    stale = {
        line.split('"')[1]: float(line.split()[-1])
        for line in service.metrics().splitlines()
        if line.startswith("dragoman_watch_staleness_seconds{")
    }
    assert stale.keys() >= {"pods", "nodes", "devices", "ledgers"}
    assert max(stale.values()) < 120
    assert service.stop() == 0
    service.start()


def test_without_the_definition_of_ledgers_the_service_ends_with_a_sentence(
    target: ControlPlane,
) -> None:
    administrator = str(target.kubeconfig("dragoman", "system:masters"))

    with pytest.raises(StartError, match="the cluster does not know NodeLedgers"):
        start_service(target, "undefined", kubeconfig=administrator)
    target.run.processes.pop()
