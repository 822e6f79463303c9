"""The MIG instances of containers."""

from collections.abc import Callable, Mapping

from adapters.agent.grants import GrantAnswer
from adapters.agent.hardware.model import Instance
from adapters.agent.hook.containers import ContainerInfo, ContainerRegistry
from adapters.agent.metrics.exposition import Family, Sample
from adapters.agent.metrics.granted import cards_of
from adapters.agent.metrics.naming import ZONE, Both, both, container_labels
from core.hardware.mig import MigKey

Instances = Mapping[MigKey, Instance]
"""The MIG instances that exist."""


def slice_families(
    containers: ContainerRegistry, instances: Instances, granted: Callable[[str, str], GrantAnswer]
) -> list[Family]:
    """The MIG instances that are granted to containers and exist.

    Args:
        containers: of the node.
        instances: the MIG instances that exist.
        granted: a container's grant, by uid of its pod and its name.
    """
    found: list[Both] = []
    for (uid, name), container in containers.present():
        for index, limit in enumerate(cards_of(granted, uid, name)):
            if limit.slice is None:
                continue
            instance = instances.get(MigKey(limit.uuid, limit.slice.profile, limit.slice.start))
            if instance is not None:
                found.append(_samples(container, index, limit.uuid, limit.slice.profile, instance))
    return both("MigInfo", "hami_mig_device_info", "MIG device of a container", found)


def _samples(
    container: ContainerInfo, index: int, uuid: str, profile: str, instance: Instance
) -> Both:
    old, new = container_labels(container, index, uuid)
    number, compute = _number(instance.gpu_instance), _number(instance.compute_instance)
    more = {
        "mig_uuid": instance.uuid,
        "profile": profile,
        "gpu_instance_id": number,
        "compute_instance_id": compute,
    }
    return Sample(old | {"instanceid": number} | ZONE, 1), Sample(new | more | ZONE, 1)


def _number(number: int | None) -> str:
    return "" if number is None else str(number)
