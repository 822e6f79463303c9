import asyncio
from dataclasses import replace

import pytest

from adapters.agent.grants import GrantStatus, LedgerGrants
from adapters.agent.tests.builders import MEMORY, ledger
from core.requests.grant import Grant
from core.requests.limits import GrantError, Limits
from core.requests.request import Phase


def test_a_lookup_distinguishes_an_unknown_pod_from_one_without_a_share() -> None:
    grants = LedgerGrants()

    assert grants.lookup("uid-1", "main") is GrantStatus.NOT_RECORDED
    grants.replace(ledger(Grant("main", "GPU-0", MEMORY, 100)))
    assert grants.lookup("uid-1", "other") is GrantStatus.NO_SHARE
    assert set(grants.cards()) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


def test_an_init_container_whose_share_other_pods_may_have_does_not_start() -> None:
    plain = ledger(
        Grant("load", "GPU-0", MEMORY, 100, phase=Phase.INIT), Grant("main", "GPU-0", MEMORY, 10)
    )
    counted = replace(plain.allocations["uid-1"], initialized=True)
    grants = LedgerGrants(plain.adopt(counted))

    with pytest.raises(GrantError, match="other pods may have their share of the card"):
        grants.lookup("uid-1", "load")
    assert isinstance(grants.lookup("uid-1", "main"), Limits)


def test_a_change_wakes_its_waiters() -> None:
    async def wait() -> bool:
        grants = LedgerGrants()
        waiting = asyncio.ensure_future(grants.next_change())
        await asyncio.sleep(0)
        grants.replace(ledger())
        await waiting
        return waiting.done()

    assert asyncio.run(wait())
