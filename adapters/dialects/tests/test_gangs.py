"""The words by which a pod names its gang."""

import json

import pytest
from msgspec.structs import replace

from adapters.dialects.gangs import (
    GROUPS,
    MOST_GROUPS,
    any_gang_of,
    gang_of,
    others,
    rule_of,
    task_of,
)
from adapters.wire.kube import Metadata, Pod, PodSpec, SchedulingGroup
from core.requests.gang import GangApi, GangRef, GangRule

KOORDINATOR = "gang.scheduling.koordinator.sh"
LABEL = "pod-group.scheduling.sigs.k8s.io"


def pod(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    group: str | None = None,
    namespace: str = "team",
) -> Pod:
    metadata = Metadata(name="p", namespace=namespace, labels=labels, annotations=annotations)
    return Pod(metadata, PodSpec(scheduling_group=SchedulingGroup(group)))


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (pod(group="g"), GangRef(GangApi.KUBERNETES, "team", "g")),
        (pod(group="g", namespace=""), GangRef(GangApi.KUBERNETES, "default", "g")),
        (pod({LABEL: "g"}), GangRef(GangApi.KOORDINATOR, "team", "g")),
        (pod({f"{LABEL}/name": "g"}), GangRef(GangApi.KOORDINATOR, "team", "g")),
        (pod(None, {f"{KOORDINATOR}/name": "g"}), GangRef(GangApi.KOORDINATOR, "team", "g")),
        (
            pod({LABEL: "first"}, {f"{KOORDINATOR}/name": "second"}),
            GangRef(GangApi.KOORDINATOR, "team", "first"),
        ),
        (
            pod({"scheduling.x-k8s.io/pod-group": "g"}),
            GangRef(GangApi.SCHEDULER_PLUGINS, "team", "g"),
        ),
        (pod({LABEL: ""}, {f"{KOORDINATOR}/name": ""}), None),
        (pod(), None),
    ],
)
def test_the_gang_of_a_pod(named: Pod, expected: GangRef | None) -> None:
    assert gang_of(named) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("0", None), ("-1", None), ("x", None), ("", None), ("9" * 11, None), ("²", None)],
)
def test_the_number_of_pods_that_a_pod_states(text: str, expected: int | None) -> None:
    for stating in (
        pod({f"{LABEL}/min-available": text}),
        pod(None, {f"{KOORDINATOR}/min-available": text}),
    ):
        rule = rule_of(stating)
        assert rule == (None if expected is None else GangRule(expected))


def test_gangs_that_are_bound_together() -> None:
    pair = frozenset(GangRef(GangApi.KOORDINATOR, "team", name) for name in "ab")

    assert others({GROUPS: '["team/a", "team/b", "nonsense"]'}) == pair
    assert others({GROUPS: '{"team": 1}'}) == frozenset()
    assert others({GROUPS: "[" * 100_000}) == frozenset()
    assert others({}) == frozenset()
    names = [f"team/{number}" for number in range(MOST_GROUPS + 1)]
    assert others({GROUPS: json.dumps(names)}) == frozenset()
    assert len(others({GROUPS: json.dumps(names[1:])})) == MOST_GROUPS
    texts = {f"{KOORDINATOR}/min-available": "2", GROUPS: '["team/a", "team/b"]'}
    assert rule_of(pod(None, texts)) == GangRule(2, pair)


@pytest.mark.parametrize(
    ("texts", "scheduler", "expected"),
    [
        ({"scheduling.k8s.io/group-name": "g"}, "volcano", "g"),
        ({"scheduling.volcano.sh/group-name": "g"}, "volcano", "g"),
        ({"scheduling.k8s.io/group-name": "g"}, "vc-of-a-team", "g"),
        ({"scheduling.k8s.io/group-name": "g"}, "default-scheduler", None),
        ({"scheduling.k8s.io/group-name": "g"}, "koord-scheduler", None),
        ({"scheduling.k8s.io/group-name": "g"}, None, None),
        ({"scheduling.k8s.io/group-name": ""}, "volcano", None),
        ({}, "volcano", None),
    ],
)
def test_the_gang_of_a_pod_of_vc_scheduler(
    texts: dict[str, str], scheduler: str | None, expected: str | None
) -> None:
    metadata = Metadata(name="p", annotations=texts)
    named = Pod(metadata, PodSpec(scheduler_name=scheduler))

    ref = None if expected is None else GangRef(GangApi.VOLCANO, "default", expected)
    assert any_gang_of(named) == ref
    assert gang_of(named) is None


def test_a_gang_of_another_scheduler_comes_before_volcanos() -> None:
    both = pod(None, {"scheduling.k8s.io/group-name": "v", f"{KOORDINATOR}/name": "k"})
    both = replace(both, spec=PodSpec(scheduler_name="volcano"))

    assert any_gang_of(both) == GangRef(GangApi.KOORDINATOR, "team", "k")


def test_the_task_of_a_pod() -> None:
    assert task_of(pod(None, {"volcano.sh/task-spec": "worker"})) == "worker"
    assert task_of(pod()) == ""
