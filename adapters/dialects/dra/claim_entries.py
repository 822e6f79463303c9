"""Writes into a pod which of its containers has which claim, and reads it."""

from collections.abc import Iterator, Mapping
from typing import Any

from adapters.wire.dra_pod import ClaimingPod

BY_NAME, BY_TEMPLATE = "resourceClaimName", "resourceClaimTemplateName"
"""How an entry of a pod names its claim.

Source: k8s.io/api v0.37.1 core/v1/types.go, PodResourceClaim.
"""

Json = dict[str, Any]


def write_entries(pod: Json, claims: Mapping[str, str], how: str) -> None:
    """Give containers claims.

    Args:
        pod: or a template of one; every such container has resources.
        claims: the name of the claim, or of its template, by the container's name.
        how: ``BY_NAME`` or ``BY_TEMPLATE``.
    """
    spec = pod["spec"]
    entries: list[Json] | None = spec.get("resourceClaims")
    if entries is None:
        spec["resourceClaims"] = entries = []
    taken = {str(each.get("name")) for each in entries}
    for container in containers(pod):
        name = str(container.get("name"))
        if name in claims:
            entry = name
            while entry in taken:
                entry += "-share"
            taken.add(entry)
            entries.append({"name": entry, how: claims[name]})
            resources = container["resources"]
            resources["claims"] = [*(resources.get("claims") or ()), {"name": entry}]


def containers(pod: Mapping[str, Any]) -> Iterator[Json]:
    """All containers of a pod, or of a template of one."""
    spec = pod["spec"]
    yield from (*(spec.get("initContainers") or ()), *spec["containers"])


def claims_in_use(pod: ClaimingPod) -> frozenset[tuple[str, str]]:
    """Each container that uses a claim by its name, with that name."""
    spec = pod.spec
    names = {each.name: each.resource_claim_name for each in spec.resource_claims or ()}
    return frozenset(
        (container.name, claim)
        for container in (*(spec.init_containers or ()), *spec.containers)
        for use in container.resources.claims or ()
        if (claim := names.get(use.name))
    )
