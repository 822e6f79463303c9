"""Which pods stay where they are, as far as the pod alone says."""

from typing import Any

import msgspec
import pytest

from adapters.accounting.movable import controller, hindrance
from adapters.wire.kube import Pod

OWNER: dict[str, Any] = {"kind": "ReplicaSet", "name": "web-7c9", "uid": "u", "controller": True}


def a_pod(**metadata: Any) -> Pod:
    return msgspec.convert({"metadata": {"ownerReferences": [OWNER]} | metadata}, Pod)


def test_a_pod_with_a_controller_may_be_moved() -> None:
    pod = a_pod(annotations={"karpenter.sh/do-not-disrupt": "false", "dragoman.dev/move": "true"})

    owner = controller(pod)

    assert hindrance(pod) == ""
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("ReplicaSet", "web-7c9", "u")


def test_the_only_pod_of_a_group_of_a_leaderworkerset_may_be_moved() -> None:
    assert hindrance(a_pod(annotations={"leaderworkerset.sigs.k8s.io/size": "1"})) == ""


@pytest.mark.parametrize("owners", [None, [], [{**OWNER, "controller": False}]])
def test_what_is_no_controller_would_not_create_a_pod_again(owners: Any) -> None:
    pod = a_pod(ownerReferences=owners)

    assert controller(pod) is None
    assert hindrance(pod) == "no controller would create it again"


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"ownerReferences": [{**OWNER, "kind": "Node"}]}, "static pod"),
        ({"ownerReferences": [], "annotations": {"kubernetes.io/config.mirror": "x"}}, "static"),
        ({"ownerReferences": [{**OWNER, "kind": "DaemonSet"}]}, "DaemonSet's pod"),
        ({"deletionTimestamp": "2026-01-31T12:00:00Z"}, "being deleted"),
        ({"labels": {"pod-group.scheduling.sigs.k8s.io": "gang"}}, "in a gang"),
        ({"annotations": {"volcano.sh/job-name": "j"}}, "in a gang"),
        ({"annotations": {"leaderworkerset.sigs.k8s.io/size": "2"}}, "in a gang"),
    ],
)
def test_a_pod_that_its_owner_or_its_gang_needs_where_it_is_stays(
    metadata: dict[str, Any], why: str
) -> None:
    assert why in hindrance(a_pod(**metadata))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dragoman.dev/move", "false"),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        ("karpenter.sh/do-not-disrupt", "true"),
        ("karpenter.sh/do-not-disrupt", "5m"),
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", ""),
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "false"),
    ],
)
def test_an_annotation_keeps_a_pod(key: str, value: str) -> None:
    assert hindrance(a_pod(annotations={key: value})) == f"its annotation {key} keeps it"


def test_the_annotation_by_which_the_descheduler_may_evict_lifts_no_hindrance() -> None:
    pod = a_pod(ownerReferences=[], annotations={"descheduler.alpha.kubernetes.io/evict": "true"})

    assert hindrance(pod) == "no controller would create it again"
