import asyncio

from adapters.agent.grants import GrantStatus, LedgerGrants
from adapters.agent.tests.builders import MEMORY, ledger
from core.requests.grant import Grant


def test_a_lookup_distinguishes_an_unknown_pod_from_one_without_a_share() -> None:
    grants = LedgerGrants()

    assert grants.lookup("uid-1", "main") is GrantStatus.NOT_RECORDED
    grants.replace(ledger(Grant("main", "GPU-0", MEMORY, 100)))
    assert grants.lookup("uid-1", "other") is GrantStatus.NO_SHARE
    assert set(grants.cards()) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


def test_a_change_wakes_its_waiters() -> None:
    async def wait() -> bool:
        grants = LedgerGrants()
        waiting = asyncio.ensure_future(grants.next_change())
        await asyncio.sleep(0)
        grants.replace(ledger())
        await waiting
        return waiting.done()

    assert asyncio.run(wait())
