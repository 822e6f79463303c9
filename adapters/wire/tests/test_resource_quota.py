"""ResourceQuotas: of their limits, those of extended resources."""

import msgspec
import pytest

from adapters.wire.kube_policy import ResourceQuotaObject, limits_of_extended_resources


def limits(text: str) -> object:
    thing = msgspec.json.decode(text, type=ResourceQuotaObject)
    return limits_of_extended_resources(thing)


def test_only_limits_of_extended_resources_are_read() -> None:
    hard = (
        '{"pods":"10","limits.cpu":"4","requests.nvidia.com/gpu":"2",'
        '"limits.nvidia.com/gpumem":"2k","limits.example.com/x":7}'
    )

    assert limits(f'{{"metadata":{{"name":"q"}},"spec":{{"hard":{hard}}}}}') == {
        "limits.nvidia.com/gpumem": "2k",
        "limits.example.com/x": 7,
    }


@pytest.mark.parametrize("text", ["{}", '{"spec":null}', '{"spec":{}}', '{"spec":{"hard":null}}'])
def test_a_quota_without_amounts_limits_nothing(text: str) -> None:
    assert limits(text) == {}


@pytest.mark.parametrize("text", ['{"spec":5}', '{"spec":["hard"]}', '{"spec":{"hard":"all"}}'])
def test_a_spec_of_another_shape_cannot_be_read(text: str) -> None:
    assert limits(text) is None
