"""A pod with ResourceClaims, with only the fields that say which container uses which claim.

Source: k8s.io/api v0.37.1 core/v1/types.go.
"""

from adapters.wire.kube import ExtendedClaim, GeneratedClaim, Metadata, PodClaim, Wire


class ClaimUse(Wire, frozen=True, gc=False):
    """A container's use of an entry of ``spec.resourceClaims``; all of it without ``request``."""

    name: str = ""
    request: str = ""


class ClaimingResources(Wire, frozen=True, gc=False):
    """The claims of a container."""

    claims: tuple[ClaimUse, ...] | None = None


class ClaimingContainer(Wire, frozen=True, gc=False):
    """A container of a pod, with its claims."""

    name: str = ""
    resources: ClaimingResources = ClaimingResources()


class ClaimingPodSpec(Wire, frozen=True, gc=False):
    """The spec of a pod, with its claims."""

    containers: tuple[ClaimingContainer, ...] = ()
    init_containers: tuple[ClaimingContainer, ...] | None = None
    resource_claims: tuple[PodClaim, ...] | None = None


class ClaimingPodStatus(Wire, frozen=True, gc=False):
    """The status of a pod, with the claims that were generated for it."""

    resource_claim_statuses: tuple[GeneratedClaim, ...] | None = None
    extended_resource_claim_status: ExtendedClaim | None = None


class ClaimingPod(Wire, frozen=True, gc=False):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: ClaimingPodSpec = ClaimingPodSpec()
    status: ClaimingPodStatus = ClaimingPodStatus()
