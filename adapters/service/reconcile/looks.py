"""Regular looks for what no watch reports: pods or gangs that wait too long for a Binding."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from adapters.accounting.gang_cache import GangCache
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.reconcile.reporter import RepairReporter
from adapters.wire.kube import Pod
from core.requests.gang import GangRef

GANGS_EVERY = 15.0
"""Seconds between two looks; a gang that is bound in part at two of them is reported."""


@dataclass(eq=False, slots=True)
class GangWatch:
    """Finds gangs of which a part is bound for longer than a scheduler takes to bind the rest.

    The service holds cards for a whole gang before its first bind. A Binding may still be refused
    for a reason that is not ours, a pod be deleted, or the scheduler end in between. Nothing is
    evicted: the scheduler tries the other pods again, and their cards are held for them meanwhile.

    Attributes:
        count: of the gangs that are reported now; gangs of pods that request no share are not ours.
    """

    _gangs: GangCache
    _requests_share: Callable[[Pod], bool]
    _reporter: RepairReporter
    count: int = 0
    _seen: dict[GangRef, bool] = field(default_factory=dict)

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(GANGS_EVERY)
            self.look()

    def look(self) -> None:
        """Report the gangs that were bound in part at the last look too."""
        seen: dict[GangRef, bool] = {}
        for gang in self._gangs.bound_in_part():
            waiting = [pod for pod in gang.pods if not pod.spec.node_name]
            if any(map(self._requests_share, waiting)):
                known = self._seen.get(gang.key)
                seen[gang.key] = known is not None
                if known is False:
                    text = (
                        f"{len(gang.pods) - len(waiting)} of {gang.minimum} pods of gang {gang.ref}"
                        " are bound; its scheduler tries the others again, and their cards are held"
                        " for them for some minutes."
                    )
                    for pod in waiting:
                        self._reporter.of_pod(pod, "GangBoundInPart", text)
        self._seen = seen
        self.count = sum(seen.values())


UNBOUND_EVERY = 5.0
"""Seconds between two scans. A Binding usually follows its ledger within one second."""


@dataclass(eq=False, slots=True)
class UnboundScanner:
    """Finds the nodes whose ledger has a pod that is still not bound one scan later.

    A service died between ledger and Binding: neither the pod nor its node changes. ``found`` is
    called with the name of such a node.
    """

    _ledgers: LedgerCache
    _cache: ClusterCache
    _found: Callable[[str], None]
    _changed: set[str] = field(default_factory=set)
    _to_check: set[str] = field(default_factory=set)

    def changed(self, node: str) -> None:
        """Note that a node's ledger was written."""
        self._changed.add(node)

    async def run(self) -> NoReturn:
        """Scan until cancelled."""
        while True:
            await asyncio.sleep(UNBOUND_EVERY)
            self.scan()

    def scan(self) -> None:
        """Check the nodes whose ledger was written before the last scan."""
        for node in self._to_check:
            stored = self._ledgers.stored(node)
            if stored is None:
                continue
            bound = {pod.metadata.uid for pod in self._cache.holding(node)}
            ledger = stored.ledger
            bound |= {held.uid for held in self._cache.claims.holding(ledger, ledger.node)}
            if not stored.ledger.allocations.keys() <= bound:
                self._found(node)
        self._to_check, self._changed = self._changed, set()
