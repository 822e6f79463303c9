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
        plain: whether a pod may name it alone and so request whole cards of a vendor's device
            plugin. Pods with it are scheduled without Dragoman while no replica answers.
    """

    name: str
    countable: bool = True
    plain: bool = False

    def is_of(self, family: str) -> bool:
        """Whether its name begins with a family's, such as ``volcano.sh/``."""
        return self.name.startswith(family)


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
    ManagedResource("nvidia.com/gpu", plain=True),
    ManagedResource("nvidia.com/gpumem", countable=False),
    ManagedResource("nvidia.com/gpumem-percentage", countable=False),
    ManagedResource("nvidia.com/gpucores", countable=False),
    ManagedResource("nvidia.com/priority", countable=False),
    ManagedResource("metax-tech.com/gpu", plain=True),
    ManagedResource("metax-tech.com/sgpu"),
    ManagedResource("metax-tech.com/vcore", countable=False),
    ManagedResource("metax-tech.com/vmemory", countable=False),
)
SHARES = tuple(each for each in RESOURCES if not each.plain)
PLAIN = tuple(each for each in RESOURCES if each.plain)
NAMES = tuple(each.name for each in RESOURCES)
