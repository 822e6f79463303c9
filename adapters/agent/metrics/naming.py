"""Each value under two names: with the guides' name and labels, and with HAMi's present ones."""

from collections.abc import Iterable

from adapters.agent.hook.containers import ContainerInfo
from adapters.agent.metrics.exposition import Family, Sample

ZONE = {"zone": "vGPU"}
"""A label of every sample."""

_MAX_UUID = 40

Both = tuple[Sample, Sample]
"""One value as two samples: with the guides' labels, and with the present ones."""

Labels = dict[str, str]


def both(old: str, new: str, text: str, samples: Iterable[Both]) -> list[Family]:
    """The families of the two names."""
    pairs = list(samples)
    return [
        Family(old, text, tuple(pair[0] for pair in pairs)),
        Family(new, text, tuple(pair[1] for pair in pairs)),
    ]


def short(uuid: str) -> str:
    """The first characters of a card's uuid; a container may have written it, at any length."""
    return uuid[:_MAX_UUID]


def container_labels(container: ContainerInfo, index: int, uuid: str) -> tuple[Labels, Labels]:
    """The labels of a container and one of its cards: the guides' ones, and the present ones.

    Args:
        container: of the node.
        index: of the card among the container's.
        uuid: of the card.
    """
    old = {
        "podnamespace": container.namespace,
        "podname": container.pod,
        "ctrname": container.container,
        "vdeviceid": str(index),
        "deviceuuid": short(uuid),
    }
    new = {
        "namespace": container.namespace,
        "pod": container.pod,
        "container": container.container,
        "vdevice_index": str(index),
        "device_uuid": short(uuid),
    }
    return old, new
