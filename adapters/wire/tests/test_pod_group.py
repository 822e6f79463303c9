"""PodGroups as each of their APIs writes them."""

import msgspec
import pytest

from adapters.wire.kube_policy import PodGroupObject


@pytest.mark.parametrize(
    ("spec", "minimum"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 4}}}, 4),
        ({"schedulingPolicy": {"basic": {}}}, 0),
        ({"schedulingPolicy": {"gang": {}}}, 0),
        ({"minMember": 3}, 3),
        ({"minMember": -1}, 0),
        ({}, 0),
    ],
)
def test_the_pods_that_are_bound_together(spec: dict[str, object], minimum: int) -> None:
    assert msgspec.convert({"spec": spec}, PodGroupObject).minimum == minimum


@pytest.mark.parametrize(
    ("least", "stated", "tasks"),
    [
        (3, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        (4, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        (2, {"a": 1, "b": 2}, {}),
        (2, {"a": 1, "b": 0, "c": -5}, {"a": 1}),
        (2, None, {}),
    ],
)
def test_the_pods_of_each_of_volcanos_tasks(
    least: int, stated: dict[str, int] | None, tasks: dict[str, int]
) -> None:
    spec = {"minMember": least, "minTaskMember": stated}

    assert msgspec.convert({"spec": spec}, PodGroupObject).tasks == tasks
