"""Shadow claims as objects of the API."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.dialects.dra.claims import NAME_FIELD, SHADOW
from adapters.dialects.dra.consumption import share_id
from adapters.dialects.dra.shadows import ShadowDevice

NODE = "dragoman.dev/node"
"""The annotation of a shadow claim with the name of its node."""

# k8s.io/api v0.37.1 resource/v1/types.go, AllocationResultsMaxSize.
RESULTS = 32
"""Devices that one claim can have."""

LONGEST_NODE = 200
"""Characters of a node's name in the name of a claim, which can have 253."""

_REQUEST = "others"
_CLASS = "shadow.dragoman.dev"


@dataclass(frozen=True, slots=True)
class ShadowClaim:
    """One claim of a node; equal claims have equal names.

    Attributes:
        name: of the object.
        manifest: without a status.
        status: of the object.
    """

    name: str
    manifest: dict[str, object]
    status: dict[str, object]


def shadow_claims(namespace: str, node: str, devices: Sequence[ShadowDevice]) -> list[ShadowClaim]:
    """The claims of a node: one, or several where it has more devices than a claim can have."""
    starts = range(0, len(devices), RESULTS)
    return [_claim(namespace, node, devices[start : start + RESULTS]) for start in starts]


def _claim(namespace: str, node: str, devices: Sequence[ShadowDevice]) -> ShadowClaim:
    rows = [(*each.key, each.consumed) for each in devices]
    digest = hashlib.sha256(json.dumps([node, rows], sort_keys=True).encode()).hexdigest()
    name = f"{node[:LONGEST_NODE].rstrip('.-')}-{digest[:16]}"
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {SHADOW: "true", "app.kubernetes.io/managed-by": "dragoman"},
        "annotations": {NODE: node},
    }
    request = {"name": _REQUEST, "exactly": {"deviceClassName": _CLASS}}
    results: list[dict[str, object]] = []
    for number, (driver, pool, device, consumed) in enumerate(rows):
        result: dict[str, object] = {
            "request": _REQUEST,
            "driver": driver,
            "pool": pool,
            "device": device,
        }
        if consumed is not None:
            result["shareID"] = share_id(f"{digest}/{number}")
            result["consumedCapacity"] = {key: str(amount) for key, amount in consumed.items()}
        results.append(result)
    term = {
        "matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}],
        "matchExpressions": [{"key": SHADOW, "operator": "Exists"}],
    }
    return ShadowClaim(
        name,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": {"devices": {"requests": [request]}},
        },
        {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [term]},
            }
        },
    )
