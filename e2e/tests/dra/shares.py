"""Shares of pods, beside which claims are allocated, and the claims that show them."""

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.names import NAMESPACE
from e2e.harness.schedulers.service import Service
from e2e.harness.workloads.claims import RESOURCES, a_pod

SHADOWS = f"{RESOURCES}/namespaces/{NAMESPACE}/resourceclaims"


def bind_share(service: Service, node: str, name: str, mib: int) -> None:
    """A pod of Volcano's words gets a share of a card of a node."""
    assert not rejection(service, node, a_share(name, mib))


def a_share(name: str, mib: int, *, mig: bool = False) -> Object:
    """A pod of Volcano's words for so much of a card, or for the smallest slice that has it."""
    pod = a_pod(name, "another-scheduler")
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(mib)}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    if mig:
        pod["metadata"]["annotations"] = {"volcano.sh/vgpu-mode": "mig"}
    return pod


def rejection(service: Service, node: str, pod: Object) -> str:
    """Create a pod and bind it to a node; why the service does not, or empty."""
    made = service.plane.api.create(PODS, pod)
    question = {
        "PodName": pod["metadata"]["name"],
        "PodNamespace": "default",
        "PodUID": made["metadata"]["uid"],
        "Node": node,
    }
    return str(service.ask("/extender/bind", question).get("Error") or "")


def shadows(api: Api) -> dict[str, Object]:
    """What each shadow claim says, by the device: the amounts, empty for a whole device."""
    return {
        result["device"]: result.get("consumedCapacity", {})
        for claim in api.get(SHADOWS)["items"]
        for result in claim.get("status", {})
        .get("allocation", {})
        .get("devices", {})
        .get("results", ())
    }
