"""One of many does the work: leader election on a Lease.

Clocks need not agree: what another holder writes is only compared with what he wrote before, and
the time since then is measured here. Source of the protocol: k8s.io/client-go/tools/leaderelection.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from adapters.cluster.api import timestamps as moment
from adapters.cluster.api.backoff import jitter
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, ClusterError, read
from adapters.cluster.api.paths import LEASES
from adapters.wire.kube import Metadata, Wire


class LeaseSpec(Wire, frozen=True, gc=False):
    """Who holds it, since when, for how long. Source: k8s.io/api/coordination/v1/types.go."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(Wire, frozen=True, gc=False):
    """A Lease."""

    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()


_LEASE: msgspec.json.Decoder[LeaseObject] = msgspec.json.Decoder(LeaseObject)


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds of an election.

    Attributes:
        duration: that a silent holder keeps the lease.
        renew: within which a holder must succeed to renew, or give up; less than ``duration``.
        retry: between two attempts.
    """

    duration: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


class Election:
    """Stands for a lease, works while it has it, gives it back in the end.

    Attributes:
        leading: whether the lease is ours now.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        term: LeaseTiming | None = None,
        report: Callable[[ClusterError], None] | None = None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            client: the server.
            namespace: of the lease.
            name: of the lease.
            identity: unique among the candidates, such as the pod's name and uid.
            term: seconds.
            report: told every failure; the candidate goes on.
        """
        self.leading = False
        self._report = report
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._term = term or LeaseTiming()
        self._seen: tuple[LeaseObject, float] | None = None

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Stand for the lease until cancelled; do the work while it is ours.

        When the lease is lost the work is cancelled and the next election begins; when the work
        ends or raises, this does too. The lease is given back in any case.
        """
        while True:
            await self._acquire()
            self.leading = True
            try:
                if await self._lead(work):
                    return
            finally:
                self.leading = False
                await self._release()

    async def _acquire(self) -> None:
        while not await self._attempt():
            await asyncio.sleep(jitter(self._term.retry))

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Work and renew side by side; True where the work came to its end first."""
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
        """Renew until it is lost, or nobody could be reached for too long."""
        renewed = time.monotonic()
        # Whoever ends this says so twice: should a cancellation get lost on the way, a lease that
        # nobody works for must not be renewed for ever.
        while self.leading and time.monotonic() - renewed < self._term.renew:
            await asyncio.sleep(self._term.retry)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(
                    asyncio.get_running_loop().time()
                    + self._term.renew
                    - (time.monotonic() - renewed)
                ):
                    began = time.monotonic()
                    if await self._attempt():
                        renewed = began
                    elif self._is_anothers():
                        return

    def _is_anothers(self) -> bool:
        holder = None if self._seen is None else self._seen[0].spec.holder_identity
        return bool(holder) and holder != self._identity

    async def _attempt(self) -> bool:
        """Take or renew the lease; whether it is ours now."""
        try:
            found = await self._read()
            if found is None:
                await self._create()
                return True
            if not self._is_free(found):
                return False
            await self._write(found, self._spec(found.spec))
        except ClusterError as error:
            if self._report is not None and error.status != CONFLICT:
                self._report(error)
            return False
        return True

    async def _read(self) -> LeaseObject | None:
        body = await self._client.find(LEASES.path(self._name, self._namespace))
        if body is None:
            return None
        found = read(_LEASE, body)
        if self._seen is None or self._seen[0].spec != found.spec:
            self._seen = (found, time.monotonic())
        return found

    def _is_free(self, found: LeaseObject) -> bool:
        if found.spec.holder_identity in {None, "", self._identity}:
            return True
        duration = found.spec.lease_duration_seconds or self._term.duration
        return self._seen is not None and time.monotonic() - self._seen[1] > duration

    def _spec(self, earlier: LeaseSpec | None) -> LeaseSpec:
        now = moment.micros(moment.now())
        renewed = earlier is not None and earlier.holder_identity == self._identity
        changes = 0 if earlier is None else (earlier.lease_transitions or 0)
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=max(1, round(self._term.duration)),
            acquire_time=earlier.acquire_time if renewed and earlier is not None else now,
            renew_time=now,
            lease_transitions=changes if renewed or earlier is None else changes + 1,
        )

    async def _create(self) -> None:
        await self._client.create(LEASES.collection(self._namespace), self._body(self._spec(None)))

    async def _write(self, found: LeaseObject, spec: LeaseSpec) -> None:
        body = self._body(spec, found.metadata.resource_version)
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
        """Let the next one begin at once; if that fails he waits for the duration."""
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(self._term.retry):
                found = await self._read()
                if found is None or found.spec.holder_identity != self._identity:
                    return
                now = moment.micros(moment.now())
                free = msgspec.structs.replace(
                    found.spec,
                    holder_identity="",
                    lease_duration_seconds=1,
                    acquire_time=now,
                    renew_time=now,
                )
                await self._write(found, free)
