"""Cards of Dynamic Resource Allocation: slices as a driver publishes them, claims, their pods."""

from collections.abc import Sequence
from fractions import Fraction

from adapters.wire.quantity import parse
from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS

RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
DRIVER = CLASS = "hami-core-gpu.project-hami.io"
"""HAMi's driver, whose devices claims share."""

NODE = "dra-node"
CARDS = ("GPU-dra-0", "GPU-dra-1")
SCHEDULERS = ("first-scheduler", "second-scheduler")
GIB = 1 << 30
CAPACITY = 80 * GIB


def a_card(number: int, uuid: str) -> Object:
    """A card of 80 GiB as HAMi's driver publishes it: a claim without cores takes all of them.

    Source: Project-HAMi/k8s-dra-driver cmd/hami-kubelet-plugin/hami_core.go.
    """
    memory = {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}
    cores = {"default": "100", "validRange": {"min": "0", "max": "100", "step": "1"}}
    return {
        "name": f"gpu-{number}",
        "allowMultipleAllocations": True,
        "attributes": {
            "uuid": {"string": uuid},
            "minor": {"int": number},
            "type": {"string": "hami-gpu"},
        },
        "capacity": {
            "memory": {"value": "80Gi", "requestPolicy": memory},
            "cores": {"value": "100", "requestPolicy": cores},
        },
    }


def a_slice(node: str, devices: Sequence[Object], driver: str = DRIVER) -> Object:
    """All devices of a driver on a node."""
    return {
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def a_class(name: str = CLASS, driver: str = DRIVER) -> Object:
    """All devices of a driver."""
    selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors}}


def a_claim(name: str, memory: int, compute: int = 0) -> Object:
    """A claim for a share of a card of ``CLASS``: bytes and percent."""
    amounts = {"memory": str(memory), "cores": str(compute)}
    exactly = {"deviceClassName": CLASS, "capacity": {"requests": amounts}}
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "share", "exactly": exactly}]}},
    }


def a_pod(name: str, scheduler: str, *claims: str) -> Object:
    """A pod whose container has all of these claims."""
    container = {
        "name": "main",
        "image": "localhost/none",
        "resources": {"claims": [{"name": claim} for claim in claims]},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "containers": [container],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            "terminationGracePeriodSeconds": 0,
        },
    }


def claim_share(api: Api, name: str, memory: int, node: str) -> None:
    """Create a claim and a pod of it, for a stock scheduler, on a node."""
    api.create(CLAIMS, a_claim(name, memory))
    pod = a_pod(name, SCHEDULERS[0], name)
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    api.create(PODS, pod)


def allocated(api: Api, cards: Sequence[str]) -> dict[str, Fraction]:
    """Bytes of each card that claims have, as the API server says.

    Args:
        api: the server.
        cards: by the number of their device.
    """
    found: dict[str, Fraction] = {card: Fraction(0) for card in cards}
    for claim in api.get(CLAIMS)["items"]:
        allocation = claim.get("status", {}).get("allocation", {})
        results = allocation.get("devices", {}).get("results", ())
        for result in (each for each in results if each["driver"] == DRIVER):
            card = cards[int(result["device"].removeprefix("gpu-"))]
            found[card] += parse(result["consumedCapacity"]["memory"])
    return found
