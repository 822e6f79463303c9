"""Adds the resources that a dialect's own webhook would add to the limits of containers."""

from adapters.dialects.dialect import ByContainer
from adapters.wire.admission import Patch, escaped
from adapters.wire.kube import Pod


def add_limits(pod: Pod, wanted: ByContainer) -> Patch:
    """Add limits to containers that have some; the API server derives the requests from them.

    Args:
        pod: the pod that is about to be created.
        wanted: amounts by the name of the resource, by the name of the container.
    """
    spec = pod.spec
    lists = (("initContainers", spec.init_containers or ()), ("containers", spec.containers))
    return [
        {
            "op": "add",
            "path": f"/spec/{field}/{index}/resources/limits/{escaped(resource)}",
            "value": amount,
        }
        for field, containers in lists
        for index, container in enumerate(containers)
        for resource, amount in wanted.get(container.name, {}).items()
    ]
