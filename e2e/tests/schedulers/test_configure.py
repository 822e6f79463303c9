"""Each real scheduler starts with what ``dragoman configure`` prints, and schedules with us.

The inputs are the installers' own configurations, and the files of ``configs``. The options give
the address and the kubeconfig of the test, as they do for a user.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.harness.cluster.api import ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, clear, cluster, node_of, pod, turn
from e2e.harness.names import CORE, RATIO
from e2e.harness.processes.run import REPOSITORY
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.configured import CONFIGS, configured
from e2e.harness.schedulers.full_stack import add_ready_nodes, prepare, wait_for_cards
from e2e.harness.schedulers.schedulers import (
    start_koord_scheduler_alone,
    start_kube_scheduler,
    start_volcano_controllers,
    start_volcano_scheduler,
)
from e2e.harness.schedulers.service import Service, start_service, webhooks, with_decisions
from e2e.harness.workloads.inventory import described, gpus, koordinator, volcano
from e2e.testbed import cache

pytestmark = pytest.mark.local

NODE = "two-cards"
GOLDEN = REPOSITORY / "adapters/cli/configure/tests/golden"
VOLCANO_SHARE = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4000"}
KOORDINATOR_SHARE = {CORE: "50", RATIO: "50"}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    cards = gpus(NODE, 2)
    with cluster([]) as plane:
        prepare(plane)
        add_ready_nodes(plane, [described(NODE, volcano(cards), koordinator(cards))])
        start_volcano_controllers(plane)
        made = start_service(plane)
        wait_for_cards(plane, [NODE])
        with webhooks(made):
            yield made


@pytest.fixture(autouse=True)
def clean(service: Service) -> Iterator[None]:
    yield
    clear(service.plane.api)
    wait_until_free(service.plane, NODE)


def both_dialects_are_placed(service: Service, scheduler: str) -> None:
    api = service.plane.api
    for name, share in (("volcano", VOLCANO_SHARE), ("koordinator", KOORDINATOR_SHARE)):
        api.create(PODS, pod(name, scheduler, share))
        with_decisions(service, partial(within, 60, partial(is_bound, service, name)))
        assert len(held(service.plane, NODE)[name]["grants"]) == 1


def is_bound(service: Service, name: str) -> bool:
    return node_of(service.plane.api, name) == NODE


def has_lease(plane: ControlPlane, namespace: str, name: str) -> bool:
    try:
        found = plane.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    except ApiError:
        return False
    return bool(found["spec"].get("holderIdentity"))


@pytest.mark.parametrize(
    "file", [CONFIGS / "kube-scheduler-config.yaml", GOLDEN / "kube-scheduler.kubeadm.in.yaml"]
)
def test_kube_scheduler_starts_with_kubeadms_configuration_and_dragoman_in_it(
    service: Service, file: Path
) -> None:
    plane = service.plane
    user = plane.kubeconfig("kube-scheduler", "system:masters")
    text = configured("kube-scheduler", file, "--url", service.url, "--kubeconfig", str(user))

    with turn(partial(start_kube_scheduler, plane, text, leads=True), plane):
        both_dialects_are_placed(service, "default-scheduler")
        assert has_lease(plane, "kube-system", "kube-scheduler")


@pytest.mark.parametrize(
    ("file", "options"),
    [
        (CONFIGS / "koord-scheduler-config.yaml", ()),
        (CONFIGS / "koord-scheduler-config-with-deviceshare.yaml", ()),
        (CONFIGS / "koord-scheduler-preemption-config.yaml", ("--no-preemption",)),
        (GOLDEN / "koord-scheduler.manifests.in.yaml", ()),
    ],
)
def test_koord_scheduler_starts_with_its_installers_configuration_and_dragoman_in_it(
    service: Service, file: Path, options: tuple[str, ...]
) -> None:
    plane = service.plane
    user = plane.kubeconfig("koord-scheduler", "system:masters")
    addresses = ("--url", service.url, "--kubeconfig", str(user))
    text = configured("koord-scheduler", file, *addresses, *options)

    with turn(partial(start_koord_scheduler_alone, plane, text, leads=True), plane):
        both_dialects_are_placed(service, "koord-scheduler")
        assert has_lease(plane, "koordinator-system", "koord-scheduler")


def volcanos_own() -> Path:
    return cache.asset("volcano", "chart") / "config/volcano-scheduler.conf"


@pytest.mark.parametrize(
    "file",
    [
        lambda: CONFIGS / "volcano-scheduler-configmap.yaml",
        volcanos_own,
        lambda: GOLDEN / "vc-scheduler.deviceshare.in.yaml",
    ],
)
def test_vc_scheduler_starts_with_volcanos_configuration_and_dragoman_in_it(
    service: Service, file: Callable[[], Path]
) -> None:
    text = configured("vc-scheduler", file(), "--url", service.url)

    with turn(partial(start_volcano_scheduler, service.plane, text), service.plane):
        both_dialects_are_placed(service, "volcano")
