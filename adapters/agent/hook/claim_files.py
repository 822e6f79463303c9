"""The deallocated claims that our driver has prepared on this node, and those that it has removed.

The API server deallocates the claim of a pod that is deleted by force at once, and the kubelet
removes the claim after the pod's containers have ended (k8s.io/kubernetes v1.37.1
pkg/kubelet/kubelet.go, syncTerminatingPod). Until then the driver's file of the claim is there.
The kubelet's PodResources interface is of no use for that: it lists no pod that was deleted by
force (pkg/kubelet/apis/podresources/server_v1.go).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from adapters.agent.grants import LedgerGrants
from adapters.agent.injection.prepared import CLAIM_MARK, prepared_claims
from adapters.agent.log import log_event
from adapters.agent.nri.session import ContainerEvent, Creating, Synchronized
from adapters.dialects.dra import DRA
from adapters.wire.records.hardware import DeallocatedClaim

INTERVAL = 1.0
"""Seconds between two looks at the files, while the ledger has a deallocated claim."""


@dataclass(slots=True)
class ClaimFiles:
    """Follows the files of our driver, from any thread.

    A claim of another driver has no file. So one counts as removed only if its file was seen.

    Attributes:
        folder: with the files.
        grants: with the node's ledger.
        subscribers: called after ``deallocated`` has changed.
    """

    folder: Path
    grants: LedgerGrants
    subscribers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _seen: frozenset[str] = frozenset()
    _readable: bool = True
    _lock: Lock = field(default_factory=Lock)

    def observe(self, event: ContainerEvent) -> None:
        """Look at the files while containers of claims are there."""
        match event:
            case Synchronized():
                self._look()
            case Creating(_, _, container) if _has_claim(container.env):
                self._look()
            case _:
                pass

    def deallocated(self) -> tuple[DeallocatedClaim, ...]:
        """The deallocated claims of our driver, by uid; none while the folder cannot be read."""
        # Before the files: a claim that is prepared later finds its mark in the ledger.
        marked = self._marked()
        present = self._look() if marked else None
        if present is None:
            return ()
        return tuple(
            DeallocatedClaim(uid, release_by, prepared=uid in present)
            for uid, release_by in sorted(marked.items())
            if uid in self._seen
        )

    async def run(self) -> None:
        """Call the subscribers until cancelled."""
        known: tuple[DeallocatedClaim, ...] = ()
        while True:
            change = self.grants.next_change()
            self._look()
            deallocated = self.deallocated()
            if deallocated != known:
                known = deallocated
                for notify in self.subscribers:
                    notify()
            if self._marked():
                with suppress(TimeoutError):
                    await asyncio.wait_for(change, INTERVAL)
            else:
                await change

    def _marked(self) -> dict[str, int]:
        """``release_by`` of each deallocated claim in the ledger, by its uid."""
        ledger = self.grants.ledger
        allocations = {} if ledger is None else ledger.allocations
        return {
            uid: held.release_by
            for uid, held in allocations.items()
            if held.dialect == DRA and held.release_by is not None
        }

    def _look(self) -> frozenset[str] | None:
        """The claims with a file; None while that is not known."""
        try:
            present = prepared_claims(self.folder)
        except OSError as error:
            if self._readable and not isinstance(error, FileNotFoundError):
                log_event("claim_files.unreadable", folder=str(self.folder), reason=str(error))
            self._readable = False
            return None
        ledger = self.grants.ledger
        known = frozenset[str]() if ledger is None else ledger.allocations.keys()
        with self._lock:
            self._readable = True
            self._seen = (self._seen & known) | present
        return present


def _has_claim(environment: tuple[str, ...]) -> bool:
    return any(line.startswith(f"{CLAIM_MARK}=") for line in environment)
