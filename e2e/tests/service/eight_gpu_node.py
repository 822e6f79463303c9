"""A node with eight cards, pods that share them, and the check that no card is allocated twice."""

from collections import Counter

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.workloads.inventory import Described, described, gpus, metax, volcano

CARDS, MEMORY = 8, 81920
SHARE = MEMORY // 8
"""Eight pods of this size fill a card by its memory; nine would fit by number and compute."""

FIT = CARDS * 8
VOLCANO = {
    "volcano.sh/vgpu-number": "1",
    "volcano.sh/vgpu-memory": str(SHARE),
    "volcano.sh/vgpu-cores": "10",
}
METAX = {
    "metax-tech.com/sgpu": "1",
    "metax-tech.com/vmemory": str(SHARE // 1024),
    "metax-tech.com/vcore": "10",
}


def eight_gpu_node(name: str) -> Described:
    """A node with eight cards that two dialects describe."""
    cards = gpus(name, CARDS, MEMORY)
    found = described(name, volcano(cards), metax(cards))
    for amounts in (found.node["status"]["capacity"], found.node["status"]["allocatable"]):
        amounts |= {"pods": "500", "cpu": "500"}
    return found


def bound(api: Api, node: str = "") -> dict[str, Object]:
    """The bound pods by their names; those of one node, if it is given."""
    items = api.get(PODS)["items"]
    return {
        row["metadata"]["name"]: row
        for row in items
        if (where := row["spec"].get("nodeName")) and node in ("", where)
    }


def cards_of(found: Object) -> list[tuple[str, int]]:
    """The cards of a pod, with MiB, by the annotations that its node reads."""
    written = found["metadata"]["annotations"]
    record = written.get("volcano.sh/vgpu-ids-new") or written[
        "hami.io/metax-sgpu-devices-allocated"
    ].strip(";")
    rows = [row.split(",") for row in record.strip(":").split(":")]
    return [(card, int(memory)) for card, _, memory, _ in rows]


def violations(plane: ControlPlane, node: str) -> list[str]:
    """Where two pods hold the same part of a card, or pods and ledger do not agree."""
    found = bound(plane.api, node)
    booked = held(plane, node)
    memory: Counter[str] = Counter()
    compute: Counter[str] = Counter()
    wrong = []
    for name, row in found.items():
        said = cards_of(row)
        for card, share in said:
            memory[card] += share
            compute[card] += 10
        known = booked.get(name)
        if known is None or known["uid"] != row["metadata"]["uid"]:
            wrong.append(f"{name} is bound and not in the ledger")
        elif [grant["card"] for grant in known["grants"]] != [card for card, _ in said]:
            wrong.append(f"{name} says {said}, the ledger {known['grants']}")
    wrong += [f"{card}: {share} MiB" for card, share in memory.items() if share > MEMORY]
    return wrong + [f"{card}: {share} percent" for card, share in compute.items() if share > 100]
