"""ShareQuota objects: limits with field and remedy, and a status that is read as it was written."""

import json
from typing import Any

import msgspec
import pytest

from adapters.wire.records.quota import (
    QuotaRecordError,
    ShareQuotaObject,
    read_quota,
    status_of,
    write_status,
)
from core.hardware.quantity import GIB
from core.quota.amounts import QuotaAmounts, QuotaLimits
from core.quota.quota import Quota, QuotaHold


def an_object(limits: Any, name: str = "quota", status: Any = None) -> ShareQuotaObject:
    thing: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "ml", "uid": "u", "resourceVersion": "7"},
        "spec": {"limits": limits},
    }
    if status is not None:
        thing["status"] = status
    return msgspec.json.decode(json.dumps(thing), type=ShareQuotaObject)


def test_limits_are_quantities() -> None:
    quota = read_quota(an_object({"cards": "1500m", "memory": "24Gi", "compute": 250}))

    assert quota == Quota("ml", QuotaLimits(1500, 24 * GIB, 250))
    assert read_quota(an_object({"cards": 2})).limits == QuotaLimits(2000)
    assert read_quota(an_object({})).limits == QuotaLimits()


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"cards": "two"}, "spec.limits.cards: 'two': must be a quantity, such as 2, 1.5 or 500m"),
        ({"cards": "0.0001"}, "spec.limits.cards: '0.0001': must be 0 or more, in thousandths"),
        ({"memory": "-1"}, "spec.limits.memory: '-1': must be a whole number of bytes"),
        ({"compute": 1.5}, "spec.limits.compute: 1.5: must be a whole number of percent"),
        ([], "ShareQuota ml/quota cannot be read"),
    ],
)
def test_a_limit_that_is_not_valid_is_named(limits: Any, problem: str) -> None:
    with pytest.raises(QuotaRecordError) as caught:
        read_quota(an_object(limits))

    assert problem in str(caught.value)


def test_another_name_is_rejected_so_that_a_namespace_has_one_quota() -> None:
    with pytest.raises(QuotaRecordError, match="one ShareQuota, named quota"):
        read_quota(an_object({}, name="more"))


def test_a_status_is_read_as_it_was_written() -> None:
    limits = {"cards": 2, "memory": "24Gi"}
    claim = QuotaHold("u", "ml/p", "n", QuotaAmounts(1500, 30 * GIB, 150), 3)
    quota = Quota("ml", QuotaLimits(2000, 24 * GIB), {claim.key: claim}, sequence=3, counted=True)

    written = json.loads(write_status(quota, "7"))

    assert read_quota(an_object(limits, status=written["status"])) == quota
    assert written["metadata"] == {"name": "quota", "namespace": "ml", "resourceVersion": "7"}
    status = status_of(quota)
    assert (status.pods, status.exceeded) == (1, ("memory",))
    assert (status.used.cards, status.used.memory, status.used.compute) == ("1.5", "30Gi", 150)
    assert (status.summary.cards, status.summary.memory, status.summary.compute) == (
        "1.5 of 2", "30.0 of 24.0 GiB", "150%",
    )  # fmt: skip
