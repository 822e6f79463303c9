"""The rules that taint devices, against a scripted server."""

import asyncio

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.claims import ClaimClient
from adapters.cluster.tests.server import Step, client, ok, refusal, serving


def taint_rules(step: Step) -> list[bool]:
    """Which of two devices the rules of a server taint."""

    async def main() -> list[bool]:
        async with serving(step) as server, client(server) as api:
            rules = await ClaimClient(api).taint_rules()
            return [
                any(rule.selects("d", "p", device) for rule in rules)
                for device in ("gpu-0", "gpu-1")
            ]

    return asyncio.run(main())


def test_rules_that_may_not_be_read_taint_all_devices_and_a_missing_kind_none() -> None:
    rule = {"spec": {"deviceSelector": {"device": "gpu-1"}}}

    assert taint_rules(ok({"items": [rule]})) == [False, True]
    assert taint_rules(refusal(404, "NotFound")) == [False, False]
    assert taint_rules(refusal(403, "Forbidden")) == [True, True]
    with pytest.raises(ClusterError):
        taint_rules(refusal(500, "InternalError"))
