"""Pods that request only what a vendor's device plugin serves."""

from typing import Any

import pytest

from adapters.dialects.matching import plain_amounts
from adapters.dialects.tests.builders import ALL, bound


@pytest.mark.parametrize(
    ("resources", "amounts"),
    [
        ({"nvidia.com/gpu": 2}, {"nvidia.com/gpu": 2}),
        ({"nvidia.com/mig-1g.10gb": 1}, {"nvidia.com/mig-1g.10gb": 1}),
        ({"nvidia.com/gpu": 0}, {}),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}, {}),
        ({"volcano.sh/vgpu-number": 1}, {}),
        ({"cpu": 1}, {}),
    ],
)
def test_a_plain_pod_requests_devices_of_a_plugin_and_nothing_else_of_a_card(
    resources: dict[str, Any], amounts: dict[str, int]
) -> None:
    assert plain_amounts(bound(resources), ALL) == amounts
