"""Finds gangs of which a part is bound for longer than a scheduler takes to bind the rest.

The service holds cards for a whole gang before its first bind. A Binding may still be refused for
a reason that is not ours, a pod be deleted, or the scheduler end in between. Nothing is evicted:
the scheduler tries the other pods again, and their cards are held for them meanwhile.
"""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from adapters.accounting.gang_cache import GangCache
from adapters.service.reconcile.ports import RepairReporter
from adapters.wire.kube import Pod
from core.requests.gang import GangRef

EVERY = 15.0
"""Seconds between two looks; a gang that is bound in part at two of them is reported."""


class GangWatch:
    """Counts such gangs, and reports each once for as long as it is bound in part.

    Attributes:
        count: of the gangs that are reported now.
    """

    def __init__(
        self, gangs: GangCache, requests_share: Callable[[Pod], bool], reporter: RepairReporter
    ) -> None:
        """Know none yet.

        Args:
            gangs: of the cluster.
            requests_share: whether a pod requests a share; gangs of others are not ours.
            reporter: of the Events.
        """
        self.count = 0
        self._gangs = gangs
        self._requests_share = requests_share
        self._reporter = reporter
        self._seen: dict[GangRef, bool] = {}

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
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
