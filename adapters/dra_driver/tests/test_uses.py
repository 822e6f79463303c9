from typing import Any

import msgspec

from adapters.dra_driver.uses import ContainerUses, UsedClaim, uses
from adapters.wire.dra_pod import ClaimingPod


def claiming_pod(spec: dict[str, Any], status: dict[str, Any] | None = None) -> ClaimingPod:
    return msgspec.convert({"spec": spec, "status": status or {}}, ClaimingPod)


def container(name: str, *claims: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": {"claims": list(claims)}}


def test_a_container_uses_the_claims_that_it_names() -> None:
    found = uses(
        claiming_pod(
            {
                "initContainers": [container("init", {"name": "a", "request": "half"})],
                "containers": [container("main", {"name": "a"}, {"name": "b"}), {"name": "other"}],
                "resourceClaims": [
                    {"name": "a", "resourceClaimName": "claim-a"},
                    {"name": "b", "resourceClaimTemplateName": "template"},
                    {"name": "none"},
                ],
            },
            {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "pod-b-x7k"}]},
        )
    )

    assert found == (
        ContainerUses("init", (UsedClaim("claim-a", "half"),)),
        ContainerUses("main", (UsedClaim("claim-a"), UsedClaim("pod-b-x7k"))),
    )


def test_a_container_with_an_extended_resource_uses_the_claim_of_the_scheduler() -> None:
    mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r0"}
    status = {"resourceClaimName": "p-extended-resources-x", "requestMappings": [mapping]}

    found = uses(
        claiming_pod({"containers": [{"name": "main"}]}, {"extendedResourceClaimStatus": status})
    )

    assert found == (ContainerUses("main", (UsedClaim("p-extended-resources-x", "r0"),)),)


def test_a_use_covers_its_request_and_the_alternatives_of_it() -> None:
    assert UsedClaim("a").covers("any/first")
    assert UsedClaim("a", "gpu").covers("gpu")
    assert UsedClaim("a", "gpu").covers("gpu/large")
    assert not UsedClaim("a", "gpu").covers("gpux")
