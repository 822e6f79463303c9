import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.agent.grants import LedgerGrants
from adapters.agent.hook.claim_files import ClaimFiles
from adapters.agent.injection.prepared import CLAIM_MARK, cdi_file
from adapters.agent.nri.model import NriContainer
from adapters.agent.nri.session import Creating, Stopped, Synchronized
from adapters.agent.tests.builders import POD, ledger
from adapters.tests.waiting import until
from adapters.wire.records.hardware import DeallocatedClaim
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant

CLAIM = "uid-claim"
DEADLINE = 2_000_000_000
USER = NriContainer("c1", "p1", "main", env=(f"{CLAIM_MARK}={CLAIM}",))
PREPARED, REMOVED = ((DeallocatedClaim(CLAIM, DEADLINE, prepared=each),) for each in (True, False))


def held(release_by: int | None = None) -> NodeLedger:
    """A ledger with a pod and a claim."""
    pods = ledger(Grant("main", "GPU-1", 1, 50))
    (pod,) = pods.allocations.values()
    return pods.adopt(replace(pod, uid=CLAIM, dialect="dra", release_by=release_by))


def prepare(folder: Path, claim: str = CLAIM) -> Path:
    path = cdi_file(folder, claim)
    path.write_text("{}")
    return path


def test_a_deallocated_claim_is_reported_as_long_as_it_is_prepared_and_after_that(
    tmp_path: Path,
) -> None:
    files = ClaimFiles(tmp_path, LedgerGrants(held()))
    file = prepare(tmp_path)
    files.observe(Creating(1, POD, USER))
    assert files.deallocated() == ()

    files.grants.replace(held(DEADLINE))
    assert files.deallocated() == PREPARED
    file.unlink()
    assert files.deallocated() == REMOVED
    files.grants.clear()
    assert files.deallocated() == ()


@pytest.mark.parametrize("event", [Creating(1, POD, USER), Synchronized((POD,), (USER,))])
def test_a_claim_whose_containers_ended_before_it_was_deallocated_is_known(
    tmp_path: Path, event: Creating | Synchronized
) -> None:
    files = ClaimFiles(tmp_path, LedgerGrants(held()))
    file = prepare(tmp_path)
    files.observe(event)
    file.unlink()

    files.grants.replace(held(DEADLINE))

    assert files.deallocated() == REMOVED


def test_of_a_claim_that_was_never_prepared_here_nothing_is_reported(tmp_path: Path) -> None:
    """Another driver may have prepared it."""
    files = ClaimFiles(tmp_path, LedgerGrants(held(DEADLINE)))
    prepare(tmp_path, "another")
    (tmp_path / "other.json").touch()
    files.observe(Creating(1, POD, NriContainer("c1", "p1", "main")))
    files.observe(Stopped(POD, USER))

    assert files.deallocated() == ()


def test_an_earlier_allocation_of_a_claim_says_nothing_of_the_next(tmp_path: Path) -> None:
    files = ClaimFiles(tmp_path, LedgerGrants(held(DEADLINE)))
    file = prepare(tmp_path)
    assert files.deallocated() == PREPARED
    file.unlink()
    files.grants.replace(ledger())
    files.observe(Synchronized((), ()))

    files.grants.replace(held(DEADLINE))

    assert files.deallocated() == ()


def test_while_the_folder_cannot_be_read_no_claim_counts_as_removed(tmp_path: Path) -> None:
    folder = tmp_path / "cdi"
    folder.mkdir()
    files = ClaimFiles(folder, LedgerGrants(held(DEADLINE)))
    file = prepare(folder)
    assert files.deallocated() == PREPARED
    file.unlink()
    folder.rmdir()

    assert files.deallocated() == ()
    folder.touch()
    assert files.deallocated() == ()


def test_subscribers_are_called_for_each_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = ClaimFiles(tmp_path, LedgerGrants(held()))
        found: list[tuple[DeallocatedClaim, ...]] = []
        files.subscribers.append(lambda: found.append(files.deallocated()))
        file = prepare(tmp_path)
        task = asyncio.ensure_future(files.run())

        files.grants.replace(held(DEADLINE))
        await until(lambda: found == [PREPARED])
        file.unlink()
        await until(lambda: found == [PREPARED, REMOVED])
        task.cancel()

    asyncio.run(scenario())
