"""Shares of pods, beside which claims are allocated."""

from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.schedulers.service import Service
from e2e.harness.workloads.claims import a_pod


def bind_share(service: Service, node: str, name: str, mib: int) -> None:
    """A pod of Volcano's words gets a share of a card of a node."""
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(mib)}
    pod = a_pod(name, "another-scheduler")
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    made = service.plane.api.create(PODS, pod)
    question = {
        "PodName": name,
        "PodNamespace": "default",
        "PodUID": made["metadata"]["uid"],
        "Node": node,
    }
    assert not service.ask("/extender/bind", question).get("Error")
