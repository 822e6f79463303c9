"""docs/guides/which-mode.md: its commands, there and back; native mode with mirrored records.

Volcano's device plugin and koordlet do not run here; what they say of the cards, the test says.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.credentials import connect
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.schedulers.native import ALL_NODES, change, changing
from e2e.harness.schedulers.stock_sharing import HANDSHAKE
from e2e.harness.workloads.claims import CLAIMS, a_claim, a_pod
from e2e.kind import cards
from e2e.kind.claims import disable_claims, enable_claims
from e2e.kind.documentation import blocks
from e2e.kind.pods import (
    create,
    delete,
    environment,
    granted,
    hami,
    koordinator,
    pod,
    used,
    volcano,
)
from e2e.kind.shell import eventually, get, sh, wait_for

PAGE = "docs/guides/which-mode.md"
KOORD, VOLCANO = "koord-scheduler", "volcano"
CONFIGURATIONS = {
    "volcano-system": "volcano-scheduler-configmap",
    "koordinator-system": "koord-scheduler-config",
}
SCHEDULERS = {"volcano-system": "volcano-scheduler", "koordinator-system": KOORD}
RECORDS = {
    "volcano": "volcano.sh/vgpu-ids-new",
    "koordinator": "scheduling.koordinator.sh/device-allocated",
}
REPLICAS = "app.kubernetes.io/component=service"
REGISTER = "volcano.sh/node-vgpu-register"
MIB = 2**20
MOST = cards.MEMORY_MIB * 3 // 5
"""More than half of a card: of these a card takes one."""


def configured() -> dict[str, dict[str, str]]:
    """The schedulers' configurations, by namespace."""
    return {
        space: get(f"configmap {name}", f"--namespace={space}")["data"]
        for space, name in CONFIGURATIONS.items()
    }


def wait_until_configured() -> None:
    """Wait until schedulers and service run with what was written."""
    for space, name in {**SCHEDULERS, "dragoman-system": "dragoman"}.items():
        sh(f"kubectl -n {space} rollout status deployment {name} --timeout=2m", 150)


@contextmanager
def described(workers: list[str]) -> Iterator[None]:
    """What the nodes' components of Volcano and Koordinator say of the cards, for a block."""
    for node in workers:
        said = {REGISTER: cards.register(node), **HANDSHAKE}
        api().merge(f"{ALL_NODES}/{node}", {"metadata": {"annotations": said}})
    create(*(cards.device(node) for node in workers))
    yield
    none = {"annotations": dict.fromkeys((REGISTER, *HANDSHAKE)), "labels": {"changed": None}}
    for node in workers:
        api().merge(f"{ALL_NODES}/{node}", {"metadata": none})
    sh(f"kubectl delete devices.scheduling.koordinator.sh {' '.join(workers)}")


@pytest.fixture(scope="module")
def native(workers: list[str]) -> Iterator[None]:
    """Both schedulers in native mode, and mirrored records; then what there was before."""
    before = configured()
    mirrors, configure, _ = blocks(PAGE, "Use native mode")
    (back,) = blocks(PAGE, "Go back")
    with described(workers):
        sh(f"{mirrors}\n{configure}")
        wait_until_configured()
        for node in workers:
            eventually(60, partial(own_plugin_chooses, node))
        yield
        sh(back)
        wait_until_configured()
    assert configured() == before


def own_plugin_chooses(node: str) -> bool:
    """Whether vc-scheduler's own plugin chooses the card of a new pod.

    It does not know the cards of nodes that it cached before its first session, until they change.
    """
    change(api(), node)
    create(pod("warm", volcano(1), node=node, scheduler=VOLCANO))
    try:
        wait_for("pod/warm", "--for=condition=PodScheduled", seconds=30)
        return outcomes("warm") == ["adopted"]
    finally:
        delete("warm")


def api() -> Api:
    """The cluster's API server."""
    return connect(Path(os.environ["KUBECONFIG"]))


def outcomes(name: str) -> list[str]:
    """How the reviews of a pod's Bindings ended, in all replicas."""
    uid = get(f"pod {name}")["metadata"]["uid"]
    return [
        row["outcome"]
        for replica in get("pods", "--namespace=dragoman-system", f"--selector={REPLICAS}")
        for row in decisions(replica["metadata"]["name"])
        if row["verb"] == "binding" and row["uid"] == uid
    ]


def decisions(replica: str) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/dragoman-system/pods/{replica}:9595/proxy/api/decisions"
    found: list[dict[str, Any]] = json.loads(sh(f"kubectl get --raw {path}"))
    return found


def mirrored(name: str) -> set[str]:
    """The dialects in whose words a pod has mirrored records."""
    said = get(f"pod {name}")["metadata"].get("annotations", {})
    return {each for each in RECORDS if said.get(f"dragoman.dev/mirror-{each}") == "true"}


def check(sizes: dict[str, int], node: str) -> None:
    """Ledger and container of each pod say the same, and no card has more than there is.

    Args:
        sizes: MiB of each pod's share, by its name.
        node: on which they all are.
    """
    grants = granted(node)
    assert {name: [row["memory"] // MIB for row in rows] for name, rows in grants.items()} == {
        name: [size] for name, size in sizes.items()
    }
    for name, (row,) in grants.items():
        inside, memory = environment(name), row["memory"]
        assert inside["NVIDIA_VISIBLE_DEVICES"] == row["card"], name
        limit = f"{memory}" if memory % MIB else f"{memory // MIB}m"
        assert inside["CUDA_DEVICE_MEMORY_LIMIT_0"] == limit, name
    assert max(used().values()) <= cards.MEMORY_MIB * MIB


@pytest.mark.usefixtures("native")
def test_pods_of_three_dialects_share_a_node_and_the_plugins_see_each_holder(
    workers: list[str],
) -> None:
    node, quarter = workers[0], cards.MEMORY_MIB // 4
    # Each of the first two needs a card that the other does not have: the second sees the first.
    first = {
        "large-volcano": (volcano(MOST, cores=30), VOLCANO, "volcano"),
        "large-koord": (koordinator(60), KOORD, "koordinator"),
    }
    for name, (limits, scheduler, _) in first.items():
        create(pod(name, limits, node=node, scheduler=scheduler))
        wait_for(f"pod/{name}", "--for=condition=Ready")
        assert outcomes(name) == ["adopted"]
    rest = {
        "small-volcano": (volcano(quarter, cores=10), VOLCANO, "volcano"),
        "small-koord": (koordinator(25), KOORD, "koordinator"),
        "small-hami": (hami(3000, cores=10), "", "hami"),
    }
    # Until a node changes, vc-scheduler 1.14.1 counts a pod twice that it bound.
    with changing(api(), node):
        create(*(pod(name, row, node=node, scheduler=by) for name, (row, by, _) in rest.items()))
        wait_for("pod", *first, *rest, "--for=condition=Ready")

    sizes = {"large-volcano": MOST, "large-koord": MOST, "small-hami": 3000}
    check({**sizes, "small-volcano": quarter, "small-koord": quarter}, node)
    for name, (_, _, dialect) in {**first, **rest}.items():
        said = get(f"pod {name}")["metadata"]["annotations"]
        assert mirrored(name) == RECORDS.keys() - {dialect}, name
        card = granted(node)[name][0]["card"]
        assert all(card in said[record] for record in RECORDS.values()), name
    delete(*first, *rest)
    eventually(60, lambda: used() == {})


@pytest.mark.usefixtures("native")
def test_a_gang_is_bound_as_a_whole_or_not_at_all(workers: list[str]) -> None:
    # vc-scheduler counts what its plugin chose for a gang that it does not bind, so the gangs that
    # fit are on the other node each.
    node, other = workers
    too_many = [
        *gang("large-volcano", 3, volcano(MOST), node, VOLCANO),
        *gang("large-koord", 3, koordinator(60), other, KOORD),
    ]
    time.sleep(8)

    assert not any(get(f"pod {name}")["spec"].get("nodeName") for name in too_many)
    assert used() == {}
    delete(*too_many)

    fitting = {
        other: gang("volcano", cards.CARDS, volcano(MOST), other, VOLCANO),
        node: gang("koord", cards.CARDS, koordinator(60), node, KOORD),
    }
    for names in fitting.values():
        wait_for("pod", *names, "--for=condition=Ready")
    for each, names in fitting.items():
        check(dict.fromkeys(names, MOST), each)
    delete(*(name for names in fitting.values() for name in names))
    sh("kubectl delete podgroups.scheduling.volcano.sh gang-large-volcano gang-volcano")
    eventually(60, lambda: used() == {})


@pytest.mark.usefixtures("native")
def test_the_plugins_see_the_share_of_a_claim(workers: list[str]) -> None:
    node, other = workers
    enable_claims(api(), workers)
    sh(f"kubectl cordon {other}")
    api().create(CLAIMS, a_claim("claimed", 8192 * MIB, 20))
    api().create(PODS, a_pod("claimed", "default-scheduler", "claimed"))
    eventually(60, lambda: bool(granted(node).get("claimed")))
    (share,) = granted(node)["claimed"]
    # The reconciler mirrors claims, after their pods are bound.
    eventually(30, lambda: mirrored("claimed") == RECORDS.keys())
    said = get("pod claimed")["metadata"]["annotations"]
    assert all(share["card"] in said[record] for record in RECORDS.values())

    # On each other card one of these fits, beside the claim none. Until a node changes,
    # vc-scheduler 1.14.1 counts what it chose for gangs that it did not bind.
    large = volcano(cards.MEMORY_MIB - share["memory"] // MIB // 2)
    names = [f"large-{number}" for number in range(cards.CARDS)]
    with changing(api(), node):
        create(*(pod(name, large, node=node, scheduler=VOLCANO) for name in names))
        eventually(60, lambda: len(granted(node)) == cards.CARDS)
        time.sleep(8)
    bound = granted(node).keys() - {"claimed"}
    assert len(bound) == cards.CARDS - 1
    assert [outcomes(name) for name in names if name not in bound] == [[]]

    sh(f"kubectl uncordon {other}")
    delete(*names, "claimed")
    sh("kubectl delete resourceclaim claimed")
    eventually(60, lambda: used() == {})
    disable_claims(api())


def gang(name: str, size: int, share: dict[str, int], node: str, scheduler: str) -> list[str]:
    """Create pods for one node, all of which start or none; their names."""
    group, names = f"gang-{name}", [f"gang-{name}-{number}" for number in range(size)]
    if scheduler == VOLCANO:
        texts = {"scheduling.k8s.io/group-name": group}
        create(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": group},
                "spec": {"minMember": size},
            }
        )
    else:
        key = "gang.scheduling.koordinator.sh"
        texts = {f"{key}/name": group, f"{key}/min-available": str(size)}
    pods = [pod(each, share, node=node, scheduler=scheduler) for each in names]
    for made in pods:
        made["metadata"]["annotations"] = texts
    create(*pods)
    return names
