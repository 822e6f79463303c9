"""The words by which a pod names its gang."""

import json

import pytest

from adapters.dialects.gangs import GROUPS, MOST_GROUPS, gang_of, others, rule_of
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
