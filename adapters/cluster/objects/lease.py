"""Leader election on a Lease.

The clocks of the candidates need not agree: another holder's record is only compared with its
earlier record, and the time since the last change is measured here. Source of the protocol:
k8s.io/client-go/tools/leaderelection.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from adapters.cluster.api import timestamps as moment
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, ClusterError, read
from adapters.cluster.api.paths import LEASES
from adapters.cluster.api.transport import jitter
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import Metadata, Wire


class LeaseSpec(Wire, frozen=True, gc=False):
    """Holder, times and duration. Source: k8s.io/api/coordination/v1/types.go."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(Wire, frozen=True, gc=False):
    """A Lease."""

    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()


_LEASE = PartialDecoder(LeaseObject)


OFFERED = 1
"""Seconds that a lease lasts which was released, or is offered to those that follow its holder."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds of an election.

    Attributes:
        duration: for which a holder that does not renew keeps the lease.
        renew: within which the holder must renew, or stop leading; less than ``duration``.
        retry: between two attempts.
    """

    duration: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


@dataclass(eq=False, slots=True)
class Election:
    """Acquires a lease, works while it holds it, and releases it.

    Attributes:
        took_over: whether it took the lease from one that did not release it, and whose work it
            has not followed: it never saw the other renew.

    The identity is unique among the candidates, such as the pod's name and uid. One that starts
    again with it offers the lease that it held to those that have followed it, and takes it back
    where there is none. ``report`` is called with each error; the candidate goes on.
    """

    _client: KubeClient
    _namespace: str
    _name: str
    _identity: str
    _term: LeaseTiming = LeaseTiming()
    report: Callable[[ClusterError], None] | None = None
    leading: bool = False
    took_over: bool = False
    _follows: bool = False
    _acquires: bool = False  # else a lease with its identity is of an earlier process
    _last_change: tuple[LeaseObject, float] | None = None
    _led_from: float = 0.0
    _renewed: float = 0.0

    def led_for(self) -> float:
        """Seconds for which this candidate has held the lease; 0 where it does not.

        A process that was paused may have lost the lease before it notices that.
        """
        now = time.monotonic()
        holds = self.leading and now - self._renewed < self._term.duration
        return now - self._led_from if holds else 0.0

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Acquire the lease and do the work while holding it, until cancelled.

        When the lease is lost, the work is cancelled and the candidate tries to acquire it again;
        when the work ends or raises, this does too. The lease is released in any case.
        """
        while True:
            try:
                while not await self._attempt():
                    await asyncio.sleep(jitter(self._term.retry))
                self.leading = True
                self._led_from = self._renewed = time.monotonic()
                if await self._lead(work):
                    return
            finally:
                self.leading = False
                await self._release()

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Work and renew concurrently; return whether the work ended first."""
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                return True
            renewing.result()
            return False
        finally:
            self.leading = False
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)

    async def _renew(self) -> None:
        """Renew until the lease is lost, or could not be renewed for too long."""
        # The end is signalled twice, by ``leading`` and by a cancellation: if the latter gets lost,
        # a lease without work must not be renewed for ever.
        while self.leading and time.monotonic() - self._renewed < self._term.renew:
            await asyncio.sleep(self._term.retry)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(
                    asyncio.get_running_loop().time()
                    + self._term.renew
                    - (time.monotonic() - self._renewed)
                ):
                    began = time.monotonic()
                    if await self._attempt():
                        self._renewed = began
                    elif self._last_change is not None:
                        holder = self._last_change[0].spec.holder_identity
                        if holder and holder != self._identity:
                            return

    async def _attempt(self) -> bool:
        """Acquire or renew the lease; return whether that succeeded."""
        try:
            lease = await self._read()
            if lease is None:
                path = LEASES.collection(self._namespace)
                self._acquires, self.took_over = True, False
                await self._client.create(path, self._body(self._spec(None)))
                return True
            holder = lease.spec.holder_identity
            before_its_start = holder == self._identity and not self._acquires
            if before_its_start and lease.spec.lease_duration_seconds != OFFERED:
                await self._offer(lease)
                return False
            if before_its_start or holder not in {None, "", self._identity}:
                duration = lease.spec.lease_duration_seconds or self._term.duration
                if duration == OFFERED:  # those that have followed its holder come first
                    duration = 0.0 if self._follows else duration + 2 * self._term.retry
                seen = None if self._last_change is None else self._last_change[1]
                if seen is None or time.monotonic() - seen <= duration:
                    return False
            self._acquires = True
            if before_its_start or holder != self._identity:  # also where its answer is lost
                self.took_over = bool(holder) and not self._follows
            await self._write(lease, self._spec(lease.spec))
        except ClusterError as error:
            if self.report is not None and error.status != CONFLICT:
                self.report(error)
            return False
        return True

    async def _offer(self, lease: LeaseObject) -> None:
        """Let the lease of an earlier process of this identity end for the others."""
        spec = msgspec.structs.replace(lease.spec, lease_duration_seconds=OFFERED)
        await self._write(lease, spec)
        self._last_change = (LeaseObject(spec=spec), time.monotonic())

    async def _read(self) -> LeaseObject | None:
        body = await self._client.find(LEASES.path(self._name, self._namespace))
        if body is None:
            return None
        lease = read(_LEASE, body)
        if self._last_change is None or self._last_change[0].spec != lease.spec:
            known = None if self._last_change is None else self._last_change[0].spec
            is_same = known is not None and known.holder_identity == lease.spec.holder_identity
            if not is_same or lease.spec.lease_duration_seconds != OFFERED:  # an offer renews none
                self._follows = is_same
            self._last_change = (lease, time.monotonic())
        return lease

    def _spec(self, earlier: LeaseSpec | None) -> LeaseSpec:
        now = moment.micros(moment.now())
        renewed = earlier is not None and earlier.holder_identity == self._identity
        changes = 0 if earlier is None else (earlier.lease_transitions or 0)
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=max(OFFERED + 1, round(self._term.duration)),
            acquire_time=earlier.acquire_time if renewed and earlier is not None else now,
            renew_time=now,
            lease_transitions=changes if renewed or earlier is None else changes + 1,
        )

    async def _write(self, lease: LeaseObject, spec: LeaseSpec) -> None:
        body = self._body(spec, lease.metadata.resource_version)
        await self._client.replace(LEASES.path(self._name, self._namespace), body)

    def _body(self, spec: LeaseSpec, version: str | None = None) -> dict[str, object]:
        metadata = {"name": self._name, "namespace": self._namespace}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata | ({} if version is None else {"resourceVersion": version}),
            "spec": spec,
        }

    async def _release(self) -> None:
        """Release the lease, so that another candidate need not wait for its duration."""
        if not self._acquires:
            return
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(self._term.retry):
                lease = await self._read()
                if lease is None or lease.spec.holder_identity != self._identity:
                    return
                now = moment.micros(moment.now())
                free = msgspec.structs.replace(
                    lease.spec,
                    holder_identity="",
                    lease_duration_seconds=OFFERED,
                    acquire_time=now,
                    renew_time=now,
                )
                await self._write(lease, free)
