"""Which container of a pod uses which requests of which claims."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adapters.wire.dra_pod import ClaimingContainer, ClaimingPod


@dataclass(frozen=True, slots=True)
class UsedClaim:
    """A use of a claim.

    Attributes:
        claim: name of the ResourceClaim.
        request: of the claim; empty for all of them.
    """

    claim: str
    request: str = ""

    def covers(self, request: str) -> bool:
        """Whether a request of the claim is meant; ``a/b`` is the alternative b of a request a."""
        return self.request in ("", request.partition("/")[0])


@dataclass(frozen=True, slots=True)
class ContainerUses:
    """The claims of a container, in the order in which it names them."""

    container: str
    claims: tuple[UsedClaim, ...]


def uses(pod: ClaimingPod) -> tuple[ContainerUses, ...]:
    """The containers of a pod that use claims."""
    names = _names(pod)
    found = (
        ContainerUses(container.name, tuple(_of_container(container, names, pod)))
        for container in _containers(pod)
    )
    return tuple(each for each in found if each.claims)


def _containers(pod: ClaimingPod) -> Sequence[ClaimingContainer]:
    return (*(pod.spec.init_containers or ()), *pod.spec.containers)


def _names(pod: ClaimingPod) -> dict[str, str]:
    """The name of the claim of each entry of ``spec.resourceClaims`` that has one."""
    made = {
        each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()
    }
    entries = pod.spec.resource_claims or ()
    named = {each.name: each.resource_claim_name or made.get(each.name) for each in entries}
    return {name: claim for name, claim in named.items() if claim}


def _of_container(
    container: ClaimingContainer, names: dict[str, str], pod: ClaimingPod
) -> Iterator[UsedClaim]:
    for use in container.resources.claims or ():
        if use.name in names:
            yield UsedClaim(names[use.name], use.request)
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        for mapping in extended.request_mappings or ():
            if mapping.container_name == container.name:
                yield UsedClaim(extended.resource_claim_name, mapping.request_name)
