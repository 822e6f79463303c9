"""Stock schedulers that share cards by themselves, and what they write on pods."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import PODS, pod, turn
from e2e.harness.names import ALLOCATED, CORE, RATIO
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.koordinator import profile
from e2e.harness.schedulers.schedulers import start_koord_scheduler_alone, start_volcano_scheduler
from e2e.harness.schedulers.volcano import MEMORY, NUMBER

CARD = 81920
"""MiB of the cards in the results of ``shares``."""

RECORDS = (
    "volcano.sh/vgpu-ids-new",
    "hami.io/metax-sgpu-devices-allocated",
    "hami.io/vgpu-devices-allocated",
)

HANDSHAKE = {"volcano.sh/node-vgpu-handshake": "Requesting_2099.01.01 00:00:00"}
"""On nodes with cards: vc-scheduler 1.14.1 ignores others, and would answer another value by a
client that works only in a pod."""

Share = tuple[str, int, int]
"""Card, MiB, percent of compute."""

_VOLCANO = json.dumps(
    {
        "actions": "enqueue, allocate, backfill",
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance")]},
            {
                "plugins": [
                    {"name": "predicates"},
                    {"name": "proportion"},
                    {"name": "nodeorder"},
                    {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}},
                ]
            },
        ],
    }
)


@contextmanager
def peers(plane: ControlPlane, nodes: Sequence[str]) -> Iterator[None]:
    """vc-scheduler and koord-scheduler (``koord``) with their own plugins for cards, for a block.

    Args:
        plane: their cluster.
        nodes: those with cards in Volcano's words; each has room for a pod of 1 MiB.
    """
    volcano = partial(start_volcano_scheduler, plane, _VOLCANO)
    profiles = [profile("koord", device_share=True)]
    koord = partial(start_koord_scheduler_alone, plane, {"profiles": profiles})
    with turn(volcano, plane), turn(koord, plane):
        for node in nodes:
            within(90, partial(gives_cards, plane, node))
        yield


def on(node: str, name: str, scheduler: str, limits: dict[str, str]) -> Object:
    """A pod that may go to one node only."""
    made = pod(name, scheduler, limits, nodeSelector={"kubernetes.io/hostname": node})
    made["metadata"]["annotations"] = {"dragoman.dev/e2e": name}
    return made


def runs(plane: ControlPlane, name: str) -> bool:
    """Whether a pod of the default namespace runs."""
    return str(plane.api.get(f"{PODS}/{name}")["status"].get("phase")) == "Running"


def shares(found: Object) -> list[Share]:
    """What the record of a peer says that a pod holds."""
    said = found["metadata"]["annotations"]
    if ALLOCATED in said:
        rows = [(row["id"], row["resources"]) for row in json.loads(said[ALLOCATED])["gpu"]]
        return sorted(
            (card, CARD * int(amounts[RATIO]) // 100, int(amounts.get(CORE, 0)))
            for card, amounts in rows
        )
    text = next((said[key] for key in RECORDS if key in said), "")
    devices = [each.split(",") for each in text.replace(";", "").split(":") if each]
    return sorted((card, int(memory), int(compute)) for card, _, memory, compute in devices)


def gives_cards(plane: ControlPlane, node: str) -> bool:
    """Whether vc-scheduler's own plugin knows the cards of a node.

    Nodes that it cached before its first session have none; it then binds pods without cards.
    """
    api = plane.api
    api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"e2e": f"{time.time()}"}}})
    api.create(PODS, on(node, "warm", "volcano", {NUMBER: "1", MEMORY: "1"}))
    within(60, lambda: runs(plane, "warm"))
    found = shares(api.get(f"{PODS}/warm"))
    api.delete(f"{PODS}/warm?gracePeriodSeconds=0")
    within(20, lambda: all(row["metadata"]["name"] != "warm" for row in api.get(PODS)["items"]))
    return bool(found)
