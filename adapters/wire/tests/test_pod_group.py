"""PodGroups as each of their APIs writes them."""

import msgspec
import pytest

from adapters.wire.pod_group import PodGroupObject


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
