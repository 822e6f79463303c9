"""Entries of claims are written into pods, and read."""

from typing import Any

import msgspec

from adapters.dialects.dra.claim_entries import BY_NAME, BY_TEMPLATE, claims_in_use, write_entries
from adapters.wire.dra_pod import ClaimingPod


def of_two_containers(**spec: Any) -> dict[str, Any]:
    containers: list[dict[str, Any]] = [{"name": name, "resources": {}} for name in ("main", "log")]
    return {"spec": {"containers": containers, **spec}}


def test_what_is_written_is_in_use() -> None:
    pod = of_two_containers(initContainers=[{"name": "warm", "resources": {}}])

    write_entries(pod, {"main": "a", "warm": "b"}, BY_NAME)

    assert claims_in_use(msgspec.convert(pod, ClaimingPod)) == {("main", "a"), ("warm", "b")}
    assert pod["spec"]["containers"][1]["resources"] == {}


def test_templates_are_no_claims_that_are_named() -> None:
    pod = of_two_containers()

    write_entries(pod, {"main": "a"}, BY_TEMPLATE)

    assert pod["spec"]["resourceClaims"] == [{"name": "main", BY_TEMPLATE: "a"}]
    assert not claims_in_use(msgspec.convert(pod, ClaimingPod))


def test_names_of_entries_that_are_there_are_not_used_again() -> None:
    there = [{"name": "main", BY_NAME: "x"}, {"name": "main-share", BY_NAME: "y"}]
    pod = of_two_containers(resourceClaims=there)

    write_entries(pod, {"main": "a"}, BY_NAME)

    assert [each["name"] for each in pod["spec"]["resourceClaims"]] == [
        "main",
        "main-share",
        "main-share-share",
    ]
    assert claims_in_use(msgspec.convert(pod, ClaimingPod)) == {("main", "a")}
