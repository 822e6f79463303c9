import pytest

from adapters.dra_driver.stored import lost

DEVICE = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": "81920Mi"}}


def test_the_same_amount_in_other_words_is_stored() -> None:
    stored = {**DEVICE, "capacity": {"memory": "80Gi"}, "default": 1}

    assert list(lost({"devices": [DEVICE]}, {"devices": [stored]}, "spec")) == []


@pytest.mark.parametrize(
    ("stored", "path"),
    [
        ({"name": "gpu-0", "capacity": {"memory": "80Gi"}}, ".allowMultipleAllocations"),
        ({**DEVICE, "capacity": {}}, ".capacity.memory"),
        ({**DEVICE, "capacity": None}, ".capacity"),
        ({**DEVICE, "capacity": {"memory": "8Gi"}}, ".capacity.memory"),
        ({**DEVICE, "name": "x y"}, ".name"),
    ],
)
def test_a_field_that_was_dropped_or_changed_is_named(stored: object, path: str) -> None:
    found = list(lost({"devices": [DEVICE]}, {"devices": [stored]}, "spec"))

    assert found == [f"spec.devices[0]{path}"]


def test_a_missing_list_is_named() -> None:
    assert list(lost({"taints": [{}]}, {}, "spec")) == ["spec.taints"]
