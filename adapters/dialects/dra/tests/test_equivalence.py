import msgspec
import pytest

from adapters.dialects.dra.consumption import others
from adapters.dialects.dra.tests.builders import a_card_device, a_result, a_slice
from adapters.wire.dra import DeviceClass, DeviceResult, RequestedClaim

DRIVER = "device.driver == 'gpu.nvidia.com'"
TYPE = "device.attributes['gpu.nvidia.com'].type == 'gpu'"


def found(
    *devices: dict[str, object],
    cls: str | None = DRIVER,
    request: dict[str, object] | None = None,
    chosen: tuple[str, ...] = ("gpu-0",),
    spec: dict[str, object] | None = None,
) -> list[str]:
    selectors = [] if cls is None else [{"cel": {"expression": cls}}]
    known = {"metadata": {"name": "cards"}, "spec": {"selectors": selectors}}
    classes = {"cards": msgspec.convert(known, DeviceClass)}
    exactly = {"deviceClassName": "cards", **(request or {})}
    requests = [{"name": "r", "exactly": exactly}]
    claim = {"spec": {"devices": {"requests": requests, **(spec or {})}}}
    results = tuple(msgspec.convert(a_result(name), DeviceResult) for name in chosen)
    published = devices or (a_card_device("gpu-0", "GPU-0"), a_card_device("gpu-1", "GPU-1"))
    return others(msgspec.convert(claim, RequestedClaim), results, [a_slice(*published)], classes)


@pytest.mark.parametrize(
    "cls", [None, DRIVER, f"{DRIVER} && {TYPE}", "device.driver in ['a', 'b']"]
)
def test_a_device_that_differs_in_nothing_that_is_asked_for_can_stand_in(cls: str | None) -> None:
    assert found(cls=cls) == ["gpu-1"]


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes['gpu.nvidia.com'].uuid == 'GPU-0'",
        "'uuid' in device.attributes['gpu.nvidia.com']",
        "device.attributes['gpu.nvidia.com']['uu' + 'id'] == 'GPU-0'",
        "device.attributes['gpu.nvidia.com']['uu\\x69d'] == 'GPU-0'",
        "device.attributes['gpu.nvidia.com'].exists(k, k.endsWith('id'))",
    ],
)
def test_no_device_stands_in_where_an_expression_may_distinguish_them(expression: str) -> None:
    assert found(cls=expression) == []
    assert found(request={"selectors": [{"cel": {"expression": expression}}]}) == []


def test_devices_with_the_same_binding_conditions_stand_in_for_each_other() -> None:
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    one, other = (a_card_device(f"gpu-{i}", f"GPU-{i}") | conditions for i in range(2))

    assert found(one, other) == ["gpu-1"]


@pytest.mark.parametrize(
    "more",
    [
        {"capacity": {"memory": {"value": "40Gi"}}},
        {"allowMultipleAllocations": True},
        {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        {"bindingConditions": ["ready"]},
        {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]},
    ],
)
def test_a_device_of_another_kind_does_not_stand_in(more: dict[str, object]) -> None:
    other = a_card_device("gpu-1", "GPU-1") | more

    assert found(a_card_device("gpu-0", "GPU-0"), other) == []


OF_OTHER_DEVICES: tuple[dict[str, object], ...] = (
    {"deviceClassName": "unknown"},
    {"count": 2},
    {"allocationMode": "All"},
    {"selectors": [{}]},
)


@pytest.mark.parametrize("request_", OF_OTHER_DEVICES)
def test_no_device_stands_in_for_a_request_that_is_not_of_one_device(
    request_: dict[str, object],
) -> None:
    assert found(request=request_) == []


def test_no_device_stands_in_for_several_or_alternatives_or_with_constraints() -> None:
    assert found(chosen=("gpu-0", "gpu-1")) == []
    assert found(chosen=("gone",)) == []
    assert found(spec={"constraints": [{"matchAttribute": "a/b"}]}) == []
    assert found(spec={"requests": [{"name": "r", "firstAvailable": []}]}) == []
    assert found(spec={"requests": None}) == []
