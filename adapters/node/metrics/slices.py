"""Which container has which MIG instance."""

from collections.abc import Callable, Mapping

from adapters.node.grants import GrantAnswer
from adapters.node.hardware.model import Instance
from adapters.node.hook.containers import ContainerInfo, ContainerRegistry
from adapters.node.metrics.exposition import Family, Sample
from adapters.node.metrics.naming import ZONE, Both, both, container_labels
from core.hardware.mig import MigKey
from core.requests.limits import CardLimit, GrantError, Limits

Instances = Mapping[MigKey, Instance]
"""By uuid of the card, and profile and start of the slice."""


def slice_families(
    tenants: ContainerRegistry, instances: Instances, granted: Callable[[str, str], GrantAnswer]
) -> list[Family]:
    """The slices that containers hold and that are there.

    Args:
        tenants: the node's containers.
        instances: that there are.
        granted: what a container may use, by uid of its pod and its name.
    """
    found: list[Both] = []
    for (uid, name), tenant in tenants.present():
        for place, limit in enumerate(_cards(granted, uid, name)):
            if limit.slice is None:
                continue
            instance = instances.get(MigKey(limit.uuid, limit.slice.profile, limit.slice.start))
            if instance is not None:
                found.append(_told(tenant, place, limit.uuid, limit.slice.profile, instance))
    return both("MigInfo", "hami_mig_device_info", "MIG device of a container", found)


def _cards(granted: Callable[[str, str], GrantAnswer], uid: str, name: str) -> list[CardLimit]:
    """In the order in which the container counts them; none where its grant does not hold."""
    try:
        limits = granted(uid, name)
    except GrantError:
        return []
    if not isinstance(limits, Limits):
        return []
    return sorted(limits.cards, key=lambda card: (card.index, card.uuid))


def _told(tenant: ContainerInfo, place: int, uuid: str, profile: str, instance: Instance) -> Both:
    old, new = container_labels(tenant, place, uuid)
    number, compute = _known(instance.gpu_instance), _known(instance.compute_instance)
    modern = {
        "mig_uuid": instance.uuid,
        "profile": profile,
        "gpu_instance_id": number,
        "compute_instance_id": compute,
    }
    return Sample(old | {"instanceid": number} | ZONE, 1), Sample(new | modern | ZONE, 1)


def _known(number: int | None) -> str:
    return "" if number is None else str(number)
