"""Cards of Dynamic Resource Allocation: slices as a driver publishes them, claims, their pods."""

from collections.abc import Sequence
from fractions import Fraction

from adapters.wire.quantity import parse
from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS

RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
DRIVER, CLASS, MIG_CLASS = "gpu.dragoman.dev", "share.dragoman.dev", "mig.dragoman.dev"
NODE = "dra-node"
CARDS = ("GPU-dra-0", "GPU-dra-1")
SCHEDULERS = ("first-scheduler", "second-scheduler")
GIB = 1 << 30
CAPACITY = 80 * GIB


def a_card(number: int, uuid: str) -> Object:
    """A card of 80 GiB that claims share by memory."""
    memory = {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}
    return {
        "name": f"gpu-{number}",
        "allowMultipleAllocations": True,
        "attributes": {"uuid": {"string": uuid}, "index": {"int": number}},
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": memory}},
    }


def a_shared_card(number: int, uuid: str) -> Object:
    """A card with compute and slots, as our driver publishes it."""
    compute = {"default": "0", "validRange": {"min": "0", "max": "100", "step": "1"}}
    slots = {"default": "1", "validValues": ["1"]}
    card = a_card(number, uuid)
    card["capacity"] |= {
        "compute": {"value": "100", "requestPolicy": compute},
        "slots": {"value": "10", "requestPolicy": slots},
    }
    return card


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
    """A claim for a share of a card of ``CLASS``: bytes and percent; 0 percent is not stated."""
    amounts = {"memory": str(memory)} | ({"compute": str(compute)} if compute else {})
    exactly = {"deviceClassName": CLASS, "capacity": {"requests": amounts}}
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "share", "exactly": exactly}]}},
    }


def a_claim_for_slice(name: str, profile: str) -> Object:
    """A claim for a MIG slice of this profile."""
    expression = f"device.attributes['{DRIVER}'].profile == '{profile}'"
    exactly = {"deviceClassName": MIG_CLASS, "selectors": [{"cel": {"expression": expression}}]}
    requests = [{"name": "slice", "exactly": exactly}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}


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
