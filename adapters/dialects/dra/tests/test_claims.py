import json

import pytest

from adapters.dialects.dra.claims import allocated, claims_of, unread_claim, without_claimed
from adapters.dialects.dra.tests.builders import a_claim, a_result, with_status
from adapters.wire.dra import ClaimManifest, ResourceClaim
from adapters.wire.kube import (
    Amount,
    ClaimedResource,
    Container,
    ExtendedClaim,
    Metadata,
    Pod,
    PodClaim,
    PodSpec,
    PodStatus,
    Resources,
)
from core.requests.request import PodRef


def test_an_allocated_claim_has_its_devices_its_nodes_and_its_pods() -> None:
    claim = allocated(a_claim(a_result("gpu-0")))

    assert claim is not None
    assert (claim.uid, claim.name, claim.unread) == ("u-claim", "team/c", None)
    assert [result.device for result in claim.results] == ["gpu-0"]
    assert claim.nodes == frozenset({"n"})
    assert claim.pods == (PodRef("team", "p", "u-pod"),)
    assert claim.ref == PodRef("team", "c", "u-claim")


def test_a_claim_without_an_allocation_has_none() -> None:
    assert allocated(with_status({})) is None
    assert allocated(ResourceClaim(Metadata(name="c"))) is None


def test_administration_holds_nothing() -> None:
    claim = allocated(a_claim(a_result("gpu-0", adminAccess=True)))

    assert claim is not None
    assert claim.results == ()


def test_a_selector_that_names_no_node_means_any() -> None:
    other = {"key": "zone", "operator": "In", "values": ["z"]}
    none = {"key": "metadata.name", "operator": "In"}
    label = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}
    every: tuple[list[object], ...] = (
        [{"matchExpressions": [other]}],
        [{"matchFields": [none]}],
        [{"matchFields": [other]}],
        [{"matchExpressions": [label]}],
        [{}],
        [],
    )
    for terms in every:
        status = {"allocation": {"nodeSelector": {"nodeSelectorTerms": terms}}}
        claim = allocated(with_status(status))
        assert claim is not None
        assert claim.nodes is None


def test_a_claim_whose_status_cannot_be_decoded_says_so() -> None:
    claim = allocated(with_status({"allocation": {"devices": {"results": [{"driver": 7}]}}}))

    assert claim is not None
    assert claim.unread is not None
    assert claim.unread.startswith("the status of the claim cannot be decoded: Expected")
    assert claim.nodes is None


def test_a_claim_that_cannot_be_decoded_may_have_devices_of_the_nodes_that_it_names_only() -> None:
    status = json.loads(bytes(a_claim(a_result("gpu-0")).status))
    allocation = {**status["allocation"], "devices": 7}

    claim = allocated(with_status({**status, "allocation": allocation}))

    assert claim is not None
    assert (claim.unread is None, claim.nodes) == (False, frozenset({"n"}))
    metadata = Metadata(name="c", namespace="team", uid="u")
    for what, nodes in (
        ({"metadata": {"labels": 7}, "status": status}, frozenset({"n"})),
        ({"status": 7}, None),
        ({}, None),
    ):
        claim = unread_claim(metadata, json.dumps(what).encode(), "odd")
        assert (claim.uid, claim.name, claim.nodes) == ("u", "team/c", nodes)
        assert claim.unread == "the claim cannot be decoded: odd"


def test_a_claim_of_a_file_is_the_one_of_the_server() -> None:
    manifest = ClaimManifest(Metadata(name="c"), {"allocation": {}})

    assert bytes(manifest.claim().status) == b'{"allocation":{}}'
    assert bytes(ClaimManifest().claim().status) == b""


def test_a_pod_names_its_claims_those_of_templates_and_that_of_its_extended_resources() -> None:
    spec = PodSpec(resource_claims=(PodClaim(name="own", resource_claim_name="own-claim"),))
    status = PodStatus(
        resource_claim_statuses=(PodClaim(name="made", resource_claim_name="made-claim"),),
        extended_resource_claim_status=ExtendedClaim(resource_claim_name="whole-cards"),
    )

    assert {*claims_of(Pod(spec=spec, status=status))} == {"own-claim", "made-claim", "whole-cards"}
    assert [*claims_of(Pod())] == [None]


def test_what_a_claim_serves_of_a_pod_is_no_request_of_it() -> None:
    """Other resources, other containers, and amounts of the same name there, stay."""
    both: dict[str, Amount] = {"nvidia.com/gpu": 1, "cpu": 2}
    containers = (
        Container("a", Resources(limits=both, requests=both)),
        Container("b", Resources(limits=both)),
    )
    init = (Container("i", Resources(limits=both)),)
    mappings = tuple(ClaimedResource(name, "nvidia.com/gpu") for name in ("a", "i"))
    pod = Pod(
        spec=PodSpec(containers=containers, init_containers=init, node_name="n"),
        status=PodStatus(extended_resource_claim_status=ExtendedClaim("made", mappings)),
    )

    own = without_claimed(pod).spec

    first, second = own.containers
    assert first.resources == Resources({"cpu": 2}, {"cpu": 2})
    assert second.resources.limits == both
    assert own.init_containers is not None
    assert own.init_containers[0].resources.limits == {"cpu": 2}
    assert own.node_name == "n"


@pytest.mark.parametrize("claim", [None, ExtendedClaim("made"), ExtendedClaim("made", ())])
def test_a_pod_without_a_claim_of_its_extended_resources_requests_them(
    claim: ExtendedClaim | None,
) -> None:
    pod = Pod(status=PodStatus(extended_resource_claim_status=claim))

    assert without_claimed(pod) is pod
