"""What tests of koord-scheduler share: its stock profile, and a node's devices."""

from e2e.harness.cluster.api import Api, Object
from e2e.harness.names import CORE, DEVICES, RATIO

# The plugins of koordinator's own config/manager/scheduler-config.yaml.
STOCK = {
    "preEnqueue": ["Coscheduling"],
    "preFilter": [
        "SchedulingHint", "Reservation", "NodeNUMAResource", "DeviceShare", "Coscheduling",
        "ElasticQuota",
    ],
    "filter": ["LoadAwareScheduling", "NodeNUMAResource", "DeviceShare", "Reservation"],
    "postFilter": ["Reservation", "Coscheduling", "ElasticQuota", "DefaultPreemption"],
    "preScore": ["Reservation", "Coscheduling"],
    "score": [
        "LoadAwareScheduling", "NodeNUMAResource", "DeviceShare", "Reservation", "Coscheduling",
    ],
    "reserve": [
        "LoadAwareScheduling", "NodeNUMAResource", "DeviceShare", "Coscheduling", "ElasticQuota",
    ],
    "permit": ["Coscheduling"],
    "preBind": ["NodeNUMAResource", "DeviceShare", "Reservation", "Coscheduling", "DefaultPreBind"],
    "bind": ["Reservation", "DefaultBinder"],
    "postBind": ["Coscheduling"],
}  # fmt: skip
REPLACED = {"postFilter", "bind"}


def profile(name: str, *, device_share: bool) -> Object:
    """Koordinator's stock profile, with its device plugin or without."""
    plugins: Object = {
        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]}
    }
    for point, names in STOCK.items():
        kept = [each for each in names if device_share or each != "DeviceShare"]
        plugins[point] = {"enabled": [{"name": each} for each in kept]}
        if point in REPLACED:
            plugins[point]["disabled"] = [{"name": "*"}]
    return {"schedulerName": name, "plugins": plugins}


def add_device(api: Api, node: str, cards: int) -> None:
    """The Device object of a node, with cards of 80Gi."""
    resources = {CORE: "100", "koordinator.sh/gpu-memory": "80Gi", RATIO: "100"}
    devices = [
        {
            "type": "gpu",
            "id": f"GPU-{node}-{minor}",
            "minor": minor,
            "health": True,
            "resources": resources,
        }
        for minor in range(cards)
    ]
    api.create(
        DEVICES,
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Device",
            "metadata": {"name": node},
            "spec": {"devices": devices},
        },
    )
