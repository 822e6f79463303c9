"""Writers that place pods on one node as a service does: read, decide, compare and swap."""

import asyncio
import random

from adapters.stores.store import Conflict, Store
from core.feasibility.fit import fit
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.tests.builders import a_request, tentative


def allocate(ledger: NodeLedger, uid: str) -> NodeLedger | None:
    """The ledger with a GiB of some card for a pod, committed; None where there is none left."""
    request = a_request(uid=uid)
    result = fit(request, ledger)
    if not isinstance(result, Placement):
        return None
    return ledger.reserve(tentative(Allocation.of(request, result))).commit(uid)


async def place_pod(store: Store, uid: str) -> bool:
    """Write a pod into the ledger of ``n``, again after each conflict; False: the node is full."""
    while True:
        stored = await store.read("n")
        assert stored is not None
        await asyncio.sleep(0)
        ledger = allocate(stored.ledger, uid)
        if ledger is None:
            return False
        try:
            await store.write(ledger, stored.version)
        except Conflict:
            await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311
        else:
            return True


async def place_many(store: Store, name: str, count: int) -> dict[str, bool]:
    """Place pods ``NAME-0`` and so on, and print the result of each."""
    placed: dict[str, bool] = {}
    for number in range(count):
        uid = f"{name}-{number}"
        placed[uid] = await place_pod(store, uid)
        print(uid, "placed" if placed[uid] else "full", flush=True)  # noqa: T201
    return placed
