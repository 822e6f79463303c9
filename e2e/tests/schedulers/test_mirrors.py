"""Stock vc-scheduler and koord-scheduler with their own device plugins count mirrored records.

Nothing of Dragoman is in their configuration: they decide on what they read from pods.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import cast

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, bind, clear, cluster, node_of, pod, turn
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import ALLOCATED, CORE, RATIO
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import add_ready_nodes, prepare, wait_for_cards
from e2e.harness.schedulers.native import DESCRIBED, change
from e2e.harness.schedulers.schedulers import start_kube_scheduler, start_volcano_controllers
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.schedulers.stock_sharing import HANDSHAKE, gives_cards, peers
from e2e.harness.schedulers.volcano import GROUPS, MEMORY, NUMBER
from e2e.harness.workloads.claims import (
    CLAIMS,
    GIB,
    RESOURCES,
    a_card,
    a_claim,
    a_class,
    a_pod,
    a_slice,
)
from e2e.harness.workloads.inventory import described, gpus, hami, koordinator, volcano

pytestmark = pytest.mark.local("vc-scheduler's own plugin reads its nodes' handshakes")

NODE = "one-card"
CARDS = gpus(NODE, 1)
VOLCANO_RECORD = "volcano.sh/vgpu-ids-new"
HALF = {
    "volcano": {NUMBER: "1", MEMORY: "40000", "volcano.sh/vgpu-cores": "40"},
    "koord": {CORE: "40", RATIO: "50"},
}
LARGE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "60000", "nvidia.com/gpucores": "30"}
PEERS = sorted(HALF)
PROGRAMS = {"volcano": "vc-scheduler", "koord": "koord-scheduler"}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """One node with one card, which three ecosystems describe, and both peers."""
    with cluster([]) as bare:
        dra = {"enabled": True, "arbiter": {"enabled": True}}
        plane = replace(bare, values={**bare.values, "dra": dra})
        prepare(plane)
        row = described(NODE, volcano(CARDS), koordinator(CARDS), hami(CARDS))
        row.node["metadata"]["annotations"].update(HANDSHAKE)
        add_ready_nodes(plane, [row])
        devices = [a_card(number, card.uuid) for number, card in enumerate(CARDS)]
        plane.api.create(f"{RESOURCES}/resourceslices", a_slice(NODE, devices))
        plane.api.create(f"{RESOURCES}/deviceclasses", a_class())
        start_volcano_controllers(plane)
        claims = {"claims": True, "arbiter": True}
        made = start_service(plane, mirrors=["volcano", "koordinator"], dra=claims)
        wait_for_cards(plane, [NODE])
        with webhooks(made), peers(plane, [NODE]):
            yield made


@pytest.fixture(autouse=True)
def clean(service: Service) -> Iterator[None]:
    yield
    clear(service.plane.api, GROUPS)
    service.plane.api.delete(CLAIMS)
    wait_until_free(service.plane, NODE)


def touch(service: Service) -> None:
    """Change the node and its Device, as their components do all the time.

    vc-scheduler 1.14.1 then forgets what it counted too much. koord-scheduler tries a waiting pod
    again, which it may have tried before its plugin saw that a pod was deleted.
    """
    change(service.plane.api, NODE, kinds=DESCRIBED)


def hold(service: Service, name: str = "holder") -> dict[str, str]:
    """Bind a pod of HAMi's dialect, as any scheduler may; its annotations."""
    api = service.plane.api
    api.create(PODS, pod(name, "no-scheduler", LARGE))
    bind(api, name, NODE)
    found: dict[str, str] = api.get(f"{PODS}/{name}")["metadata"]["annotations"]
    return found


def create(
    service: Service, name: str, scheduler: str, share: Mapping[str, str] | None = None
) -> None:
    touch(service)
    service.plane.api.create(PODS, pod(name, scheduler, dict(share or HALF[scheduler])))


def is_unschedulable(service: Service, name: str) -> bool:
    found = service.plane.api.get(f"{PODS}/{name}")["status"].get("conditions", ())
    return any(row.get("reason") == "Unschedulable" for row in found)


def is_bound(service: Service, name: str) -> bool:
    touch(service)
    return node_of(service.plane.api, name) == NODE


def bindings(service: Service, name: str) -> list[Object]:
    rows = service.get("/api/decisions")
    return [r for r in rows if r["verb"] == "binding" and r["pod"].endswith(f"/{name}")]


def remove(service: Service, name: str) -> None:
    service.plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    within(30, lambda: name not in held(service.plane, NODE))


@pytest.mark.parametrize("scheduler", PEERS)
def test_a_peer_waits_for_what_a_pod_of_another_dialect_has_without_trying_to_bind(
    service: Service, scheduler: str
) -> None:
    written = hold(service)

    waits = f"waits-for-{scheduler}"
    create(service, waits, scheduler)
    within(30, lambda: is_unschedulable(service, waits))

    assert written[VOLCANO_RECORD] == f"{CARDS[0].uuid},NVIDIA,60000,30:"
    assert '"koordinator.sh/gpu-memory-ratio":"74"' in written[ALLOCATED]
    assert bindings(service, waits) == []
    remove(service, "holder")
    within(60, lambda: is_bound(service, waits))
    latest, *earlier = [row["outcome"] for row in bindings(service, waits)]
    assert latest == "adopted"
    assert earlier in ([], ["refused"])  # it may come before the ledger has freed the card


@pytest.mark.parametrize("first", PEERS)
def test_peers_see_each_other(service: Service, first: str) -> None:
    (second,) = set(PEERS) - {first}
    create(service, "one", first)
    within(30, lambda: is_bound(service, "one"))
    create(service, "two", second)
    within(30, lambda: is_bound(service, "two"))

    three = f"third-of-{first}"
    create(service, three, first)
    within(30, lambda: is_unschedulable(service, three))

    assert bindings(service, three) == []
    assert held(service.plane, NODE).keys() == {"one", "two"}


@pytest.mark.parametrize("record", [VOLCANO_RECORD, ALLOCATED])
def test_a_mirror_that_is_edited_or_deleted_comes_back_and_counts(
    service: Service, record: str
) -> None:
    written = hold(service)
    scheduler = "volcano" if record == VOLCANO_RECORD else "koord"
    less = {VOLCANO_RECORD: f"{CARDS[0].uuid},NVIDIA,1,0:", ALLOCATED: '{"gpu":[]}'}[record]

    for text in (less, None):
        service.plane.api.merge(f"{PODS}/holder", {"metadata": {"annotations": {record: text}}})
        within(30, lambda: annotation(service, "holder", record) == written[record])

    create(service, "waits", scheduler)
    within(30, lambda: is_unschedulable(service, "waits"))


def annotation(service: Service, name: str, key: str) -> str | None:
    found: str | None = (
        service.plane.api.get(f"{PODS}/{name}")["metadata"].get("annotations", {}).get(key)
    )
    return found


@contextmanager
def removed(service: Service) -> Iterator[None]:
    """The service and its webhooks are away for a block, as after an uninstall."""
    api = service.plane.api
    (hooks,) = api.get(CONFIGURATIONS)["items"]
    name = hooks["metadata"]["name"]
    api.delete(f"{CONFIGURATIONS}/{name}")
    service.stop()
    try:
        yield
    finally:
        service.start()
        api.create(CONFIGURATIONS, {**hooks, "metadata": {"name": name}})


def hold_by_a_claim(service: Service) -> None:
    """Let kube-scheduler bind a pod with a claim for 8 GiB and 10 percent of the card."""
    plane, name = service.plane, "claiming"
    plane.api.create(CLAIMS, a_claim(name, 8 * GIB, 10))
    start = partial(start_kube_scheduler, plane, {"profiles": [{"schedulerName": "kube"}]})
    with turn(start, plane):
        plane.api.create(PODS, a_pod(name, "kube", name))
        within(60, lambda: is_bound(service, name))
    within(30, lambda: annotation(service, name, ALLOCATED) is not None)


def test_the_records_stay_right_without_the_service(service: Service) -> None:
    """Each peer, started again, has just what pods and a claim of all dialects leave of the card.

    Of 81,920 MiB and 100 percent: HAMi's pod has 20,000 and 10, the claim 8,192 and 10, Volcano's
    20,000 and 10, Koordinator's a fifth and 10. That leaves 17,344 MiB to Volcano; and, as the
    shares of a card are rounded up, 25 + 10 + 25 + 20, a fifth to Koordinator.
    """
    api = service.plane.api
    share = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "10"}
    api.create(PODS, pod("of-hami", "no-scheduler", share))
    bind(api, "of-hami", NODE)
    hold_by_a_claim(service)
    create(service, "of-volcano", "volcano", of_volcano(20000))
    create(service, "of-koord", "koord", of_koord(20))
    for name in ("of-volcano", "of-koord"):
        within(30, partial(is_bound, service, name))

    with removed(service):
        for kind, too_much, rest in (
            ("volcano", of_volcano(17345), of_volcano(17344)),
            ("koord", of_koord(21), of_koord(20)),
        ):
            restart(service, kind)
            create(service, f"waits-{kind}", kind, too_much)
            within(60, partial(is_unschedulable, service, f"waits-{kind}"))
            create(service, f"fits-{kind}", kind, rest)
            within(60, partial(is_bound, service, f"fits-{kind}"))
            assert node_of(api, f"waits-{kind}") == ""
            for name in (f"waits-{kind}", f"fits-{kind}"):
                api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")


def restart(service: Service, scheduler: str) -> None:
    """Start a peer again, so that all that it knows of the card is in the records of pods."""
    plane, name = service.plane, PROGRAMS[scheduler]
    (earlier,) = [each for each in plane.run.processes if each.name == name]
    earlier.stop()
    plane.run.processes.remove(earlier)
    plane.run.start(name, cast("list[str]", earlier.popen.args))
    if scheduler == "volcano":
        within(90, partial(gives_cards, plane, NODE))


def of_volcano(memory: int) -> dict[str, str]:
    """MiB, and a tenth of the compute, in Volcano's words."""
    return {NUMBER: "1", MEMORY: f"{memory}", "volcano.sh/vgpu-cores": "10"}


def of_koord(percent: int) -> dict[str, str]:
    """Percent of the memory, and a tenth of the compute, in Koordinator's words."""
    return {CORE: "10", RATIO: f"{percent}"}
