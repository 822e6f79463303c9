"""A value told twice: under the guides' name and labels, and under today's."""

from collections.abc import Iterable

from adapters.node.hook.containers import ContainerInfo
from adapters.node.metrics.exposition import Family, Sample

ZONE = {"zone": "vGPU"}
"""The label that all of them carry."""

_LONGEST_UUID = 40

Both = tuple[Sample, Sample]
"""The same value with the guides' labels, and with today's."""

Labels = dict[str, str]


def both(old: str, new: str, text: str, samples: Iterable[Both]) -> list[Family]:
    """The families of the two names."""
    pairs = list(samples)
    return [
        Family(old, text, tuple(pair[0] for pair in pairs)),
        Family(new, text, tuple(pair[1] for pair in pairs)),
    ]


def short(uuid: str) -> str:
    """A card's uuid, as much as is told of it; a container may have written it."""
    return uuid[:_LONGEST_UUID]


def container_labels(tenant: ContainerInfo, place: int, uuid: str) -> tuple[Labels, Labels]:
    """A container and one of its cards, in the guides' words and in today's.

    Args:
        tenant: the container.
        place: of the card among the container's.
        uuid: of the card.
    """
    old = {
        "podnamespace": tenant.namespace,
        "podname": tenant.pod,
        "ctrname": tenant.container,
        "vdeviceid": str(place),
        "deviceuuid": short(uuid),
    }
    new = {
        "namespace": tenant.namespace,
        "pod": tenant.pod,
        "container": tenant.container,
        "vdevice_index": str(place),
        "device_uuid": short(uuid),
    }
    return old, new
