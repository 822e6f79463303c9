"""The resources that a scheduler asks Dragoman about."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """One of them.

    Attributes:
        name: of the extended resource.
        countable: whether a scheduler may sum it up over a node: the node states it, and a pod
            that fits the sum may fit a card. It is false for bounds of one card and for names
            that no component publishes by default.
    """

    name: str
    countable: bool = True


RESOURCES = (
    ManagedResource("volcano.sh/vgpu-number"),
    ManagedResource("volcano.sh/vgpu-memory"),
    ManagedResource("volcano.sh/vgpu-memory-percentage", countable=False),
    ManagedResource("volcano.sh/vgpu-cores"),
    ManagedResource("koordinator.sh/gpu"),
    ManagedResource("koordinator.sh/gpu.shared", countable=False),
    ManagedResource("koordinator.sh/gpu-core"),
    ManagedResource("koordinator.sh/gpu-memory"),
    ManagedResource("koordinator.sh/gpu-memory-ratio"),
    ManagedResource("nvidia.com/gpu", countable=False),
    ManagedResource("nvidia.com/gpumem", countable=False),
    ManagedResource("nvidia.com/gpumem-percentage", countable=False),
    ManagedResource("nvidia.com/gpucores", countable=False),
    ManagedResource("nvidia.com/priority", countable=False),
    ManagedResource("metax-tech.com/gpu"),
    ManagedResource("metax-tech.com/sgpu"),
    ManagedResource("metax-tech.com/vcore", countable=False),
    ManagedResource("metax-tech.com/vmemory", countable=False),
)
NAMES = tuple(each.name for each in RESOURCES)
