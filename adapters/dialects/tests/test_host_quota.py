"""The limits that HAMi's scheduler reads from a ResourceQuota, for all pods of the namespace."""

from collections.abc import Mapping

import pytest

from adapters.dialects.dialect import Defaults
from adapters.dialects.host_quota import CLOSED, HostLimits, host_limits
from adapters.dialects.registry import dialects
from core.hardware.quantity import GIB, MIB
from core.quota.amounts import NO_LIMITS, QuotaLimits


def read(hard: Mapping[str, object] | None, **nvidia: object) -> HostLimits:
    """With these values in the NVIDIA section of HAMi's device configuration."""
    file = {("hami-scheduler-device", "device-config.yaml"): {"nvidia": nvidia}} if nvidia else {}
    return host_limits(hard, dialects(file, Defaults()))


def test_memory_is_in_mib_and_compute_in_percent_of_a_card() -> None:
    found = read({"limits.nvidia.com/gpumem": "20k", "limits.nvidia.com/gpucores": 150})

    assert found == HostLimits(QuotaLimits(memory=20000 * MIB, compute=150))


def test_zero_is_a_limit() -> None:
    assert read({"limits.nvidia.com/gpumem": "0"}).limits == QuotaLimits(memory=0)


def test_other_keys_are_ignored_silently() -> None:
    assert read({"limits.example.com/x": "a lot"}) == HostLimits()
    assert read({}) == HostLimits()


def test_renamed_resources_and_the_unit_of_memory_are_the_clusters() -> None:
    found = read(
        {"limits.nvidia.com/vmem": "4", "limits.nvidia.com/gpumem": "1"},
        resourceMemoryName="nvidia.com/vmem",
        memoryFactor=1024,
    )

    assert found == HostLimits(QuotaLimits(memory=4 * GIB))


@pytest.mark.parametrize("amount", ["many", "-1", "1500m", True, None, [], {}])
def test_an_amount_that_cannot_be_read_counts_as_zero_and_is_named(amount: object) -> None:
    found = read({"limits.nvidia.com/gpumem": amount})

    assert found.limits == QuotaLimits(memory=0)
    (problem,) = found.problems
    assert problem.startswith(f"spec.hard[limits.nvidia.com/gpumem]: {amount!r}: must be a whole")


def test_more_than_any_cluster_has_is_a_limit_that_no_sum_reaches() -> None:
    assert read({"limits.nvidia.com/gpumem": "9E"}).limits == QuotaLimits(memory=1 << 62)


def test_limits_that_cannot_be_read_close_the_namespace() -> None:
    found = read(None)

    assert found.limits == CLOSED
    assert "spec.hard: cannot be read" in found.problems[0]


def test_a_number_of_cards_is_not_counted_as_hami_does_not_and_the_author_learns_it() -> None:
    found = read({"limits.nvidia.com/gpu": "2"})

    assert found.limits == NO_LIMITS
    assert found.problems == (
        "spec.hard[limits.nvidia.com/gpu]: '2': no component counts this, HAMi's scheduler"
        " neither; use requests.nvidia.com/gpu",
    )
