"""Stock schedulers bind the pods of all dialects through the service, from one ledger."""

import base64
import json
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import (
    PODS,
    add_priorities,
    clear,
    cluster,
    events,
    node_of,
    pod,
)
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import NAMESPACE, RELEASE
from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import (
    start_koord_scheduler,
    start_kube_scheduler,
    start_volcano,
)
from e2e.harness.schedulers.service import install

pytestmark = pytest.mark.local

NODES = ("gpu-0", "gpu-1")

NUMBER, MEMORY, CORES = (f"volcano.sh/vgpu-{word}" for word in ("number", "memory", "cores"))
SGPU, VCORE, VMEMORY = (f"metax-tech.com/{word}" for word in ("sgpu", "vcore", "vmemory"))
CORE, RATIO, SHARED = (
    f"koordinator.sh/{w}" for w in ("gpu-core", "gpu-memory-ratio", "gpu.shared")
)

VOLCANO = {NUMBER: "1", MEMORY: "4000", CORES: "20"}
METAX = {SGPU: "1", VCORE: "20", VMEMORY: "4"}
MANAGED = (NUMBER, MEMORY, CORES, SGPU, VCORE, VMEMORY, CORE, RATIO, SHARED)


def a_node(name: str) -> Object:
    """A node with one card that Volcano's and MetaX's dialects describe."""
    uuid = f"GPU-{name}"
    metax = {
        "uuid": uuid,
        "model": "A100",
        "totalDevCount": 16,
        "totalCompute": 100,
        "totalVRam": 16384,
        "healthy": True,
        "qosPolicy": "best-effort",
    }
    annotations = {
        "volcano.sh/node-vgpu-register": f"{uuid},10,16384,NVIDIA-A100,true,hami-core:",
        "metax-tech.com/node-gpu-devices": json.dumps([metax]),
    }
    amounts = {NUMBER: "10", MEMORY: "16384", CORES: "100", SGPU: "16", VCORE: "100", VMEMORY: "64"}
    return fake_node(name, amounts, annotations)


class Service:
    """The service, with a port in the clear and one with TLS."""

    def __init__(self, plane: ControlPlane) -> None:
        self.clear, self.secure = free_ports(2)
        self.plane = plane
        pair = plane.authority.server("dragoman-server")
        settings = {
            "listen": f"127.0.0.1:{self.clear}",
            "store": "kubernetes",
            "kubeconfig": str(account(plane, NAMESPACE, RELEASE)),
            "namespace": NAMESPACE,
            "confirmStop": "agents",  # kwok's pods have no containers that could run on
            "tls": {
                "listen": f"127.0.0.1:{self.secure}",
                "certificate": str(pair.certificate),
                "key": str(pair.key),
            },
        }
        file = plane.run.folder / "dragoman.yaml"
        file.write_text(json.dumps(settings))
        code = "from adapters.cli.main import main; main()"
        command = [sys.executable, "-c", code, "serve", "--config", str(file)]
        plane.run.start("dragoman", command, ready=self.is_ready)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.clear}"

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=5) as answer:  # noqa: S310
            return json.loads(answer.read())

    @contextmanager
    def webhooks(self) -> Iterator[None]:
        """Let the API server ask about pods and bindings of the default namespace."""
        name = "admission.dragoman.dev"
        authority = self.plane.authority.pair.certificate.read_bytes()
        hooks = [
            {
                "name": f"{resource.replace('/', '-')}.dragoman.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "NoneOnDryRun",
                "failurePolicy": "Fail",
                "rules": [
                    {
                        "operations": ["CREATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": [resource],
                    }
                ],
                "clientConfig": {
                    "url": f"https://127.0.0.1:{self.secure}/admission/{route}",
                    "caBundle": base64.b64encode(authority).decode(),
                },
            }
            for resource, route in (("pods", "pods"), ("pods/binding", "bindings"))
        ]
        self.plane.api.create(
            CONFIGURATIONS,
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": hooks,
            },
        )
        try:
            yield
        finally:
            self.plane.api.delete(f"{CONFIGURATIONS}/{name}")


def kube_configuration(service: Service, scheduler: str) -> Object:
    return {
        "profiles": [{"schedulerName": scheduler}],
        "percentageOfNodesToScore": 100,
        "extenders": [
            {
                "urlPrefix": f"{service.url}/extender",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "bindVerb": "bind",
                "weight": 5,
                "nodeCacheCapable": True,
                "managedResources": [{"name": name} for name in MANAGED],
            }
        ],
    }


def volcano_configuration(service: Service) -> str:
    arguments = {
        "urlPrefix": f"{service.url}/volcano",
        "httpTimeout": "5s",
        "predicateVerb": "predicate",
        "prioritizeVerb": "prioritize",
        "preemptableVerb": "preemptable",
        "reclaimableVerb": "reclaimable",
        "allocateFuncVerb": "allocate",
        "deallocateFuncVerb": "deallocate",
        "managedResources": list(MANAGED),
    }
    extender = {"name": "extender", "arguments": {f"extender.{k}": v for k, v in arguments.items()}}
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, extender]
    second = [{"name": name} for name in ("predicates", "proportion", "nodeorder")]
    tiers = [{"plugins": first}, {"plugins": second}]
    return json.dumps({"actions": "enqueue, allocate, backfill", "tiers": tiers})


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([a_node(name) for name in NODES]) as plane:
        add_priorities(plane.api)
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    made = Service(plane)
    start_kube_scheduler(plane, kube_configuration(made, "kube"))
    start_koord_scheduler(plane, kube_configuration(made, "koord"))
    start_volcano(plane, volcano_configuration(made))
    with made.webhooks():
        yield made


@pytest.fixture
def clean(plane: ControlPlane) -> Iterator[None]:
    yield
    clear(plane.api)
    within(20, lambda: not any(held(plane, node) for node in NODES))


def wait_for(plane: ControlPlane, *names: str, patience: float = 30) -> None:
    """Wait until the pods have a node; a failure includes their Events."""
    try:
        within(patience, lambda: all(node_of(plane.api, name) for name in names))
    except Exception as error:
        seen = {name: events(plane.api, name) for name in names}
        raise AssertionError(f"{seen}\n{plane.run.folder}") from error


def annotations(plane: ControlPlane, name: str) -> dict[str, str]:
    found: dict[str, str] = plane.api.get(f"{PODS}/{name}")["metadata"].get("annotations", {})
    return found


@pytest.mark.usefixtures("clean")
def test_three_schedulers_bind_pods_of_two_dialects_on_the_same_cards(
    plane: ControlPlane, service: Service
) -> None:
    plane.api.create(PODS, pod("by-kube", "kube", VOLCANO))
    plane.api.create(PODS, pod("by-koord", "koord", METAX))
    plane.api.create(PODS, pod("by-volcano", "volcano", VOLCANO))

    wait_for(plane, "by-kube", "by-koord", "by-volcano")

    for name, key in (
        ("by-kube", "volcano.sh/vgpu-ids-new"),
        ("by-koord", "metax-tech.com/gpu-devices-allocated"),
        ("by-volcano", "volcano.sh/vgpu-ids-new"),
    ):
        node = node_of(plane.api, name)
        assert f"GPU-{node}" in annotations(plane, name)[key]
        assert held(plane, node)[name]["grants"][0]["card"] == f"GPU-{node}"
    created = plane.api.get(f"{PODS}/by-volcano")["spec"]["containers"][0]["env"]
    assert {one["name"]: one["value"] for one in created} == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "DRAGOMAN_SHARE": "1",
    }
    assert sum(card["usedMemoryMiB"] for card in service.get("/api/cards")) == 2 * 4000 + 4096


@pytest.mark.usefixtures("clean")
def test_cards_that_are_full_for_one_dialect_are_full_for_the_other_and_free_again_later(
    plane: ControlPlane, service: Service
) -> None:
    large = {NUMBER: "1", MEMORY: "14000"}
    for number in range(2):
        plane.api.create(PODS, pod(f"large-{number}", "volcano", large))
    wait_for(plane, "large-0", "large-1")

    plane.api.create(PODS, pod("waits", "kube", METAX))
    within(20, lambda: any("short" in said for said in events(plane.api, "waits")))
    assert node_of(plane.api, "waits") == ""
    plane.api.delete(f"{PODS}/large-0?gracePeriodSeconds=0")

    wait_for(plane, "waits", patience=60)
    assert not [p for node in service.get("/api/nodes") for p in node["problems"]]


@pytest.mark.usefixtures("service", "clean")
def test_an_invalid_request_is_refused_at_once_with_a_sentence(plane: ControlPlane) -> None:
    from e2e.harness.cluster.api import ApiError

    with pytest.raises(ApiError, match="must be 1 to 100"):
        plane.api.create(PODS, pod("wrong", "kube", {**METAX, VCORE: "150"}))


@pytest.mark.usefixtures("service", "clean")
def test_a_pod_that_another_client_binds_is_counted_and_a_gone_one_is_not(
    plane: ControlPlane,
) -> None:
    plane.api.create(PODS, pod("by-hand", "no-scheduler", VOLCANO))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "by-hand"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-0"},
    }
    plane.api.create(f"{PODS}/by-hand/binding", body)

    within(10, lambda: "by-hand" in held(plane, "gpu-0"))
    assert "GPU-gpu-0" in annotations(plane, "by-hand")["volcano.sh/vgpu-ids-new"]
    plane.api.delete(f"{PODS}/by-hand?gracePeriodSeconds=0")
    within(20, lambda: "by-hand" not in held(plane, "gpu-0"))
