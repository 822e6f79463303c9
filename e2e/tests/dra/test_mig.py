"""Slices of one card by claims and by pods of Volcano, on a node of kwok.

kube-scheduler 1.37.1 counts the slices that claims have by counters, and knows no pod.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from core.hardware.mig_catalog import geometry
from core.hardware.quantity import MIB
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.nodes import add_nodes, fake_node
from e2e.harness.cluster.ready_cluster import PODS, events, node_of, wait_for_nodes
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import (
    CLAIMS,
    RESOURCES,
    SCHEDULERS,
    a_class,
    a_pod,
)
from e2e.tests.dra.arbiter import end_round, is_asked, stranger_on, wait_for_ledger
from e2e.tests.dra.shares import a_share, rejection

pytestmark = pytest.mark.local("the API server admits no claims of other modules")

DRIVER, CLASS = "gpu.nvidia.com", "mig.nvidia.com"
NODE, UUID = "mig-node", "GPU-a1004040-0000-4000-8000-000000000000"
MODEL = "NVIDIA A100-SXM4-40GB"
HALF, HALF_MIB = "3g.20gb", 19000
"""A profile, and an amount of which it is the smallest slice."""


@pytest.fixture(scope="module")
def running(plane: ControlPlane) -> Iterator[Service]:
    """The arbiter, and a node with a card in MIG mode that its slices and Volcano describe."""
    api = plane.api
    resources = {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "40960"}
    register = {"volcano.sh/node-vgpu-register": f"{UUID},10,40960,NVIDIA-{MODEL},true,mig:"}
    add_nodes(api, [fake_node(NODE, resources, register)])
    wait_for_nodes(api, [NODE])
    slices = a_class(CLASS, DRIVER)
    kind = f"device.attributes['{DRIVER}'].type == 'mig'"
    slices["spec"]["selectors"].append({"cel": {"expression": kind}})
    api.create(f"{RESOURCES}/deviceclasses", slices)
    with published(plane):
        made = start_service(plane, dra={"claims": True, "arbiter": True})
        wait_for_ledger(plane)
        within(60, lambda: bool(ledger(plane, NODE).get("cards")))
        with webhooks(made):
            within(60, lambda: is_asked(made))
            yield made
        made.stop()
    api.delete(f"{RESOURCES}/deviceclasses/{CLASS}")


@contextmanager
def published(plane: ControlPlane) -> Iterator[None]:
    """All slices of the card as NVIDIA's driver publishes them, for a block; the node goes too.

    Slices of one card exclude each other by counters of its memory slices. Source:
    kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/partitions.go.
    """
    slots = {
        (slot.profile, slot.start): slot
        for layout in geometry((MODEL,)).layouts
        for slot in layout.slices
    }
    devices = [
        {
            "name": f"gpu-0-mig-{slot.profile.replace('.', '')}-{slot.start}",
            "attributes": {
                "type": {"string": "mig"},
                "parentUUID": {"string": UUID},
                "profile": {"string": slot.profile},
            },
            "capacity": {"memory": {"value": f"{slot.memory // MIB}Mi"}},
            "consumesCounters": [
                {"counterSet": "gpu-0", "counters": memory_slices(slot.start, slot.size)}
            ],
        }
        for slot in slots.values()
    ]
    counters = [{"name": "gpu-0", "counters": memory_slices(0, 8)}]
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": NODE, "pool": pool}
    api, path = plane.api, f"{RESOURCES}/resourceslices"
    parts: dict[str, list[Object]] = {"sharedCounters": counters, "devices": devices}
    for field, rows in parts.items():
        name = f"{NODE}-{field.lower()}"
        api.create(path, {"metadata": {"name": name}, "spec": {**common, field: rows}})
    try:
        yield
    finally:
        for field in parts:
            api.delete(f"{path}/{NODE}-{field.lower()}")
        api.delete(f"/api/v1/nodes/{NODE}")


def memory_slices(first: int, count: int) -> Object:
    return {f"memory-slice-{number}": {"value": "1"} for number in range(first, first + count)}


@pytest.fixture
def service(running: Service) -> Iterator[Service]:
    yield running
    end_round(running.plane.api)
    within(60, lambda: not held(running.plane, NODE))


def add(plane: ControlPlane, name: str, profile: str) -> None:
    """A claim for a slice, and a pod that uses it."""
    expression = f"device.attributes['{DRIVER}'].profile == '{profile}'"
    exactly = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": expression}}]}
    requests = [{"name": "slice", "exactly": exactly}]
    plane.api.create(
        CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
    )
    pod = a_pod(name, SCHEDULERS[0], name)
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": NODE}
    plane.api.create(PODS, pod)


def rejected(plane: ControlPlane, name: str) -> bool:
    """Whether the arbiter has rejected what the scheduler chose."""
    return any(f"dragoman: {NODE}: card {UUID}" in row for row in events(plane.api, name))


def test_slices_of_claims_and_of_pods_of_volcano_exclude_each_other(service: Service) -> None:
    """Each half of the card, and the other."""
    plane, api = service.plane, service.plane.api
    add(plane, "claim", HALF)
    within(60, lambda: node_of(api, "claim") == NODE)

    assert not rejection(service, NODE, a_share("pod", HALF_MIB, mig=True))
    assert rejection(service, NODE, a_share("late", HALF_MIB, mig=True))
    add(plane, "next", HALF)
    within(60, lambda: rejected(plane, "next"))

    starts = {each["grants"][0]["slice"]["start"] for each in held(plane, NODE).values()}
    assert set(held(plane, NODE)) == {"claim", "pod"}
    assert starts == {0, 4}
    api.delete(f"{PODS}/pod")
    within(60, lambda: node_of(api, "next") == NODE)
    assert set(held(plane, NODE)) == {"claim", "next"}


def test_a_card_of_a_claim_has_no_slices_left(service: Service) -> None:
    """The claim of another driver has the card as a whole."""
    plane, api = service.plane, service.plane.api
    with stranger_on(plane, 0, node=NODE, cards=(UUID,)):
        assert rejection(service, NODE, a_share("pod", HALF_MIB, mig=True))
        add(plane, "next", HALF)
        within(60, lambda: rejected(plane, "next"))

        api.delete(f"{CLAIMS}/stranger")
        within(60, lambda: node_of(api, "next") == NODE)
