"""Prepares a claim: what its container gets, in a CDI file, before the kubelet creates it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import msgspec

from adapters.agent.grants import LedgerGrants
from adapters.agent.injection.adjustment import Equipment, plan_share
from adapters.agent.injection.hami_core import NEUTRAL
from adapters.agent.injection.host import realize
from adapters.agent.injection.prepared import (
    CDI_KIND,
    CONTAINER,
    POD_UID,
    SCRATCH,
    CdiDevice,
    edits_of,
)
from adapters.agent.nri.model import NriContainer, PodSandbox
from adapters.dialects.dra import DRIVER
from adapters.dialects.dra.claims import Claim, allocated
from adapters.dra_driver.claim_server import ClaimSource
from adapters.dra_driver.claim_share import GrantedDevice, NotCommittedError, granted_devices
from adapters.dra_driver.prepared import PreparedClaims, PreparedDevice
from adapters.dra_driver.uses import ContainerUses, UsedClaim, uses
from core.requests.limits import GrantError, limits
from core.requests.pod_ref import PodRef

LEDGER_WAIT = 5.0
"""Seconds to wait for a claim that the ledger lacks; the kubelet asks again later."""


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """The claim that the kubelet asks for."""

    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class Preparer:
    """Prepares and removes claims.

    Attributes:
        source: where claims and pods are read.
        grants: the node's ledger.
        equipment: the node's hardware as it is now.
        cards: uuid of the card of each published device, by the device's name.
        prepared: the claims that are prepared.
    """

    source: ClaimSource
    grants: LedgerGrants
    equipment: Callable[[], Equipment]
    cards: Callable[[], Mapping[str, str]]
    prepared: PreparedClaims
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=WeakValueDictionary[str, asyncio.Lock]
    )
    """Locks of the claims that are prepared or removed now, by uid: one delays no other."""

    async def prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
        """Prepare a claim; one that is prepared already stays as it is.

        Its container may run: the kubelet asks again after its own restart. A claim that got other
        devices meanwhile has to be removed first.

        Raises:
            GrantError: the claim cannot be used, and why.
            OSError: the API server did not answer, or the node lacks something.
        """
        async with self._lock(ref):
            found = self.prepared.read(ref.uid)
            if found is None:
                return await self._prepare(ref)
            await self._check_unmoved(ref, found)
            return found

    async def unprepare(self, ref: ClaimRef) -> None:
        """Remove what was prepared; a claim that is not prepared is no error.

        Raises:
            OSError: the file cannot be removed.
        """
        async with self._lock(ref):
            self.prepared.remove(ref.uid)

    def _lock(self, ref: ClaimRef) -> asyncio.Lock:
        return self._locks.setdefault(ref.uid, asyncio.Lock())

    async def _prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
        claim = await self._claim(ref.namespace, ref.name)
        if claim.uid != ref.uid:
            raise GrantError(f"claim {claim.name} was replaced: its uid is {claim.uid}")
        if all(each.driver != DRIVER for each in claim.results):
            raise GrantError(
                f"claim {claim.name} has only devices for administration (adminAccess): the driver"
                " prepares claims that request a share"
            )
        user = _only_user(claim)
        pod = await self.source.pod(user.namespace, user.name)
        if pod.metadata.uid != user.uid:
            raise GrantError(
                f"pod {user.namespace}/{user.name} was replaced: its uid is {pod.metadata.uid}, and"
                f" claim {claim.name} is reserved for {user.uid}"
            )
        found = uses(pod)
        own = await self._granted(claim)
        _check_single_use(claim, found, own)
        devices: list[CdiDevice] = []
        names: dict[int, tuple[str, ...]] = {}
        for container in found:
            shares = await self._shares(container, ref, own, user)
            if not shares or shares[0][0].claim != ref.name:
                continue  # another claim of the container has its whole share
            device, vendor = self._device(user, container.container, ref.uid, shares)
            devices.append(device)
            names[own.index(shares[0][1][0])] = (f"{CDI_KIND}={device.name}", *vendor)
        answer = tuple(
            PreparedDevice(
                each.result.request.partition("/")[0],
                each.result.pool,
                each.result.device,
                each.result.share_id,
                names.get(position, ()),
            )
            for position, each in enumerate(own)
        )
        self.prepared.write(ref.uid, answer, tuple(devices))
        return answer

    async def _check_unmoved(self, ref: ClaimRef, found: Sequence[PreparedDevice]) -> None:
        """A claim without devices, and one that cannot be read, stays as it is prepared.

        Raises:
            GrantError: the claim has other devices than it is prepared with.
        """
        try:
            claim = await self._claim(ref.namespace, ref.name)
        except (GrantError, OSError):
            return
        own = {
            (each.pool, each.device, each.share_id)
            for each in claim.results
            if each.driver == DRIVER
        }
        if claim.uid == ref.uid and own != {(each.pool, each.device, each.share) for each in found}:
            raise GrantError(
                f"claim {claim.name} is prepared with other devices than it has now, until the"
                " kubelet has removed it"
            )

    async def _claim(self, namespace: str, name: str) -> Claim:
        found = allocated(await self.source.claim(namespace, name))
        if found is None:
            raise GrantError(f"claim {namespace}/{name} is not allocated")
        if found.unread is not None:
            raise GrantError(found.unread)
        return found

    async def _granted(self, claim: Claim) -> tuple[GrantedDevice, ...]:
        """The claim's devices; waits for the ledger."""
        try:
            async with asyncio.timeout(LEDGER_WAIT):
                while True:
                    change = self.grants.next_change()
                    try:
                        found = granted_devices(claim, self.grants.ledger, self.cards())
                    except NotCommittedError:
                        await change
                    except BaseException:
                        change.close()
                        raise
                    else:
                        change.close()
                        return found
        except TimeoutError as error:
            raise GrantError(f"claim {claim.name}: the ledger has no allocation of it") from error

    async def _shares(
        self,
        container: ContainerUses,
        ref: ClaimRef,
        own: tuple[GrantedDevice, ...],
        user: PodRef,
    ) -> list[tuple[UsedClaim, list[GrantedDevice]]]:
        """What a container has of all its claims; empty where it does not use this one."""
        if all(each.claim != ref.name for each in container.claims):
            return []
        found: list[tuple[UsedClaim, list[GrantedDevice]]] = []
        for used in container.claims:
            granted = own
            if used.claim != ref.name:
                other = await self._claim(ref.namespace, used.claim)
                if all(result.driver != DRIVER for result in other.results):
                    continue
                if _only_user(other).uid != user.uid:
                    raise GrantError(
                        f"claim {other.name} is reserved for pod {_only_user(other)}, not {user}"
                    )
                granted = await self._granted(other)
            devices = [each for each in granted if used.covers(each.result.request)]
            if devices:
                found.append((used, devices))
        return found

    def _device(
        self,
        user: PodRef,
        container: str,
        uid: str,
        shares: Sequence[tuple[UsedClaim, list[GrantedDevice]]],
    ) -> tuple[CdiDevice, tuple[str, ...]]:
        """What a container gets, by our file and by names of the vendor's own."""
        grants = [each.grant for _, devices in shares for each in devices]
        equipment = self.equipment()
        found = limits(grants, container, equipment.cards)
        # The image may set any of the variables that weaken the limits.
        described = NriContainer(name=container, env=tuple(f"{name}=" for name in NEUTRAL))
        pod = PodSandbox(name=user.name, uid=user.uid, namespace=user.namespace)
        plan = plan_share(found, pod, described, equipment)
        annotations = {POD_UID: user.uid, CONTAINER: container}
        if plan.scratch_dir is not None:
            annotations[SCRATCH] = plan.scratch_dir
            # A folder that is there may be in use: only the claim's file was lost.
            shared = (*plan.shared_dirs, plan.scratch_dir)
            plan = msgspec.structs.replace(plan, shared_dirs=shared, scratch_dir=None)
        adjustment = realize(plan)
        device = CdiDevice(f"{uid}-{container}", annotations, edits_of(adjustment, uid))
        return device, adjustment.cdi


def _only_user(claim: Claim) -> PodRef:
    if len(claim.pods) != 1:
        raise GrantError(
            f"claim {claim.name} is reserved for {len(claim.pods)} pods, and one pod can use a"
            " share: give each pod a claim of its own, by a ResourceClaimTemplate"
        )
    return claim.pods[0]


def _check_single_use(
    claim: Claim, containers: Sequence[ContainerUses], own: tuple[GrantedDevice, ...]
) -> None:
    """Limits are set for one container, so two would have the share twice.

    Raises:
        GrantError: two containers use the same device.
    """
    name = claim.name.partition("/")[2]
    for each in own:
        users = [
            container.container
            for container in containers
            for used in container.claims
            if used.claim == name and used.covers(each.result.request)
        ]
        if len(users) > 1:
            raise GrantError(
                f"claim {claim.name}: containers {' and '.join(users)} use request"
                f" {each.result.request}, and one container can use a share: give each a claim"
                " or a request of its own"
            )
