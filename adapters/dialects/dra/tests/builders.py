"""Slices and claims as a real API server 1.37.1 returned them, with fewer fields."""

import msgspec

from adapters.wire.dra import ResourceClaim, ResourceSlice

NVIDIA = "gpu.nvidia.com"


def a_slice(
    *devices: dict[str, object], driver: str = NVIDIA, generation: int = 1
) -> ResourceSlice:
    spec = {
        "driver": driver,
        "nodeName": "n",
        "pool": {"name": "n", "generation": generation, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    name = f"n-{driver}-{generation}"
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def a_card_device(name: str, uuid: str, memory: str = "80Gi") -> dict[str, object]:
    attributes = {
        "uuid": {"string": uuid},
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA A100 80GB PCIe"},
    }
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}}


def a_mig_device(name: str, parent: str, profile: str, first: int) -> dict[str, object]:
    """An instance as NVIDIA's driver publishes one that exists: with the slices that it covers."""
    attributes = {
        "gpu.nvidia.com/uuid": {"string": "MIG-1"},
        "gpu.nvidia.com/parentUUID": {"string": parent},
        "gpu.nvidia.com/profile": {"string": profile},
    }
    capacity = {"memory": {"value": "1Gi"}, f"memorySlice{first}": {"value": "1"}}
    return {"name": name, "attributes": attributes, "capacity": capacity}


def a_result(device: str, driver: str = NVIDIA, **more: object) -> dict[str, object]:
    return {"request": "r", "driver": driver, "pool": "n", "device": device, **more}


def a_share(device: str, driver: str = NVIDIA, **amounts: str) -> dict[str, object]:
    return a_result(device, driver, shareID="b7542072", consumedCapacity=amounts)


def a_claim(
    *results: dict[str, object], node: str | None = "n", name: str = "c", uid: str = "u-claim"
) -> ResourceClaim:
    allocation: dict[str, object] = {"devices": {"results": list(results)}}
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    status = {
        "allocation": allocation,
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u-pod"}],
    }
    return with_status(status, name, uid)


def with_status(status: object, name: str = "c", uid: str = "u-claim") -> ResourceClaim:
    metadata = {"name": name, "namespace": "team", "uid": uid}
    text = msgspec.json.encode({"metadata": metadata, "status": status})
    return msgspec.json.decode(text, type=ResourceClaim)
