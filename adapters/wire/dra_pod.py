"""A pod with ResourceClaims, with only the fields that say which container uses which claim.

Source: k8s.io/api v0.37.1 core/v1/types.go.
"""

from adapters.wire.kube import Metadata, Wire


class ClaimUse(Wire, frozen=True, gc=False):
    """Of a container: an entry of ``spec.resourceClaims``; all its requests without ``request``."""

    name: str = ""
    request: str = ""


class ClaimingResources(Wire, frozen=True, gc=False):
    """Of a container."""

    claims: tuple[ClaimUse, ...] | None = None


class ClaimingContainer(Wire, frozen=True, gc=False):
    """Of a pod."""

    name: str = ""
    resources: ClaimingResources = ClaimingResources()


class PodClaim(Wire, frozen=True, gc=False):
    """An entry of ``spec.resourceClaims``; without a claim's name it is made of a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ClaimingPodSpec(Wire, frozen=True, gc=False):
    """Of a pod."""

    containers: tuple[ClaimingContainer, ...] = ()
    init_containers: tuple[ClaimingContainer, ...] | None = None
    resource_claims: tuple[PodClaim, ...] | None = None


class GeneratedClaim(Wire, frozen=True, gc=False):
    """The claim that was made for an entry with a template; without a name none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class RequestMapping(Wire, frozen=True, gc=False):
    """The container whose extended resource a request of a claim stands for."""

    container_name: str = ""
    request_name: str = ""


class ExtendedClaim(Wire, frozen=True, gc=False):
    """The claim that kube-scheduler made for the extended resources of a pod."""

    resource_claim_name: str = ""
    request_mappings: tuple[RequestMapping, ...] | None = None


class ClaimingPodStatus(Wire, frozen=True, gc=False):
    """Of a pod."""

    resource_claim_statuses: tuple[GeneratedClaim, ...] | None = None
    extended_resource_claim_status: ExtendedClaim | None = None


class ClaimingPod(Wire, frozen=True, gc=False):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: ClaimingPodSpec = ClaimingPodSpec()
    status: ClaimingPodStatus = ClaimingPodStatus()
