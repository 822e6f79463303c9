"""Kubernetes' ResourceQuota, with only the limits that a scheduler of shares may enforce.

Source: k8s.io/api/core/v1/types.go. Kubernetes counts ``requests.nvidia.com/gpu`` and the like; of
extended resources it does not count ``limits.``, so that a scheduler has to.
"""

from collections.abc import Mapping
from typing import Any

from adapters.wire.kube import Metadata, Wire

KIND = "ResourceQuota"
PREFIX = "limits."


class ResourceQuotaObject(Wire, frozen=True, gc=False):
    """A ResourceQuota; its spec is of any shape, because each cluster has some of no concern."""

    metadata: Metadata = Metadata()
    spec: Any = None


def limits_of_extended_resources(thing: ResourceQuotaObject) -> Mapping[str, object] | None:
    """The amounts of ``spec.hard`` by key, such as ``limits.nvidia.com/gpumem``.

    Returns:
        the amounts in any form; none where it limits no extended resource; None where the limits
        cannot be read.
    """
    spec = {} if thing.spec is None else thing.spec
    hard = spec.get("hard") if isinstance(spec, dict) else spec
    if hard is None:
        return {}
    if not isinstance(hard, dict):
        return None
    return {
        key: amount
        for key, amount in hard.items()
        if isinstance(key, str) and key.startswith(PREFIX) and "/" in key
    }
