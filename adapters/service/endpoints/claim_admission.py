"""Admission of allocations of ResourceClaims, before the API server writes them.

Schedulers write ``status.allocation`` when they have chosen the devices of a claim, once. That
write is the commit point for every scheduler of Dynamic Resource Allocation, as the Binding is for
pods: the cards are committed to the ledger, or the allocation is rejected with a reason, which
becomes the pod's Event. A rejection has status 403: schedulers repeat a write with 409 five times.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import Claim, allocated
from adapters.dialects.dra.consumption import ConsumptionError
from adapters.dialects.dra.devices import Devices
from adapters.dialects.dra.equivalence import others
from adapters.service.decide.commit.claim_choice import IN_USE, ClaimRefusal
from adapters.service.decide.commit.claim_holdings import holdings, node_without_ledger, unclear
from adapters.service.decide.ports import DecisionRecord, LiveResources, Outcome
from adapters.service.decide.service import Service
from adapters.service.endpoints.claim_shares import Pool, all_results, with_shares
from adapters.service.endpoints.outcomes import ERRORS, FORBIDDEN, UNAVAILABLE, failed
from adapters.wire import admission
from adapters.wire.admission import AdmissionRequest
from adapters.wire.decode import body
from adapters.wire.decode.decoder import Decoder
from adapters.wire.dra import DeviceClass, RequestedClaim, ResourceClaim, ResourceSlice
from core.requests.grant import Allocation

_CLAIM = Decoder(ResourceClaim)
_REQUESTED = Decoder(RequestedClaim)


class DeviceCatalog(Protocol):
    """What drivers and administrators say about devices."""

    @property
    def devices(self) -> Devices:
        """The devices of all slices."""
        ...

    def pool(
        self, driver: str, name: str, nodes: Collection[str] | None
    ) -> Sequence[ResourceSlice]:
        """The slices of the newest generation of a pool, on these nodes; None for all."""
        ...

    def device_class(self, name: str) -> DeviceClass | None:
        """A class; None where there is none."""
        ...


class ClaimAdmission:
    """Answers reviews of ``resourceclaims/status``; raises as ``KubeExtender`` does."""

    def __init__(self, service: Service, catalog: DeviceCatalog, live: LiveResources) -> None:
        """Answer for a service.

        Args:
            service: that decides.
            catalog: of the cluster's devices.
            live: the claims and taints as the API server has them.
        """
        self._service = service
        self._catalog = catalog
        self._live = live

    async def statuses(self, content: bytes) -> bytes:
        """The status of a claim is to be written: commit a new allocation, or reject it."""
        review = admission.read_review(content)
        if review.operation != "UPDATE":
            return admission.allowed(review.uid)
        claim = allocated(body.read(admission.object_of(review), _CLAIM))
        if claim is None or _before(review) is not None:
            return admission.allowed(review.uid)
        self._service.check_ready()
        consumers = tuple(map(str, claim.pods))
        decision = DecisionRecord(
            "claim", Outcome.ERROR, claim.name, claim.uid, DRA, consumers=consumers
        )
        try:
            claim, shares = with_shares(review, claim, self._pool(claim))
        except ConsumptionError as error:
            text = f"dragoman: {error}"
            return self._deny(review, replace(decision, cause="unclear", text=text))
        held = self._held(claim)
        missing = node_without_ledger(claim, self._service.ledgers, self._catalog.devices)
        if missing:
            text = f"dragoman: {missing} has no ledger yet"
            return self._deny(review, replace(decision, node=missing, cause="unclear", text=text))
        if not held:
            self._record(replace(decision, outcome=Outcome.UNTOUCHED))
            return admission.allowed(review.uid)
        decision = replace(decision, node=held[0].node)
        problem = unclear(held)
        if problem is not None:
            return self._deny(review, replace(decision, cause="unclear", text=problem))
        try:
            self._service.check_attempts(claim.ref, held[0].node)
            problem = await self._contradiction(claim)
            if problem is not None:
                text = f"dragoman: {problem}"
                return self._deny(review, replace(decision, cause="placed", text=text))
            refusal = await self._commit(review, held[0])
            in_use = refusal is not None and refusal.cause == IN_USE
            device = await self._correct(review, claim) if in_use else None
        except ERRORS as error:
            decision, status = failed(decision, error)
            self._record(decision)
            code = UNAVAILABLE if status == UNAVAILABLE else FORBIDDEN
            return admission.denied(review.uid, code, f"dragoman: {decision.text}")
        if device is not None:
            self._record(replace(decision, outcome=Outcome.CORRECTED))
            return admission.allowed(review.uid, [*shares, _replacing(device)])
        if refusal is not None:
            place = f"{held[0].node}: " if in_use else ""
            text = f"dragoman: {place}{refusal.text}"
            return self._deny(review, replace(decision, cause=refusal.cause, text=text))
        if not review.dry_run:
            outcome = Outcome.CORRECTED if shares else Outcome.ADOPTED
            self._record(replace(decision, outcome=outcome))
        return admission.allowed(review.uid, shares or None)

    async def _contradiction(self, claim: Claim) -> str | None:
        """Why a claim gets no devices by what the API server has; None where it may get some.

        Every pod can send a review, which therefore changes nothing that a claim has.
        """
        live = await self._live.get(claim.ref)
        if live is None or live.metadata.uid != claim.uid:
            return f"the API server has no such claim {claim.name}"
        has_devices = allocated(live) is not None
        return f"the API server's {claim.name} has devices already" if has_devices else None

    async def _commit(self, review: AdmissionRequest, held: Allocation) -> ClaimRefusal | None:
        """Why a claim does not get its devices; None where they are the claim's now."""
        committer = self._service.committer
        if review.dry_run:
            return committer.refusal_of_claim(held)
        return await committer.commit_claim(held)

    async def _correct(self, review: AdmissionRequest, claim: Claim) -> str | None:
        """Commit another device that is as good as the chosen one; None where none is free."""
        requested = body.read(admission.object_of(review), _REQUESTED)
        if len(all_results(review)) != 1:
            return None  # others() answers for the first result of the claim
        first, *_ = claim.results
        slices = self._pool(claim)(first.driver, first.pool)
        rules = await self._live.taint_rules()
        for name in others(requested, claim.results, slices, self._catalog.device_class):
            if any(rule.selects(first.driver, first.pool, name) for rule in rules):
                continue
            result = msgspec.structs.replace(first, device=name)
            held = self._held(replace(claim, results=(result,)))
            if len(held) != 1 or held[0].unread is not None:
                continue
            is_free = self._service.committer.refusal_of_claim(held[0]) is None
            if is_free and await self._commit(review, held[0]) is None:
                return name
        return None

    def _pool(self, claim: Claim) -> Pool:
        """The slices of a pool on the nodes where the claim's devices can be."""
        return lambda driver, name: self._catalog.pool(driver, name, claim.nodes)

    def _held(self, claim: Claim) -> tuple[Allocation, ...]:
        return holdings(claim, self._service.ledgers, self._catalog.devices)

    def _deny(self, review: AdmissionRequest, decision: DecisionRecord) -> bytes:
        self._record(replace(decision, outcome=Outcome.REFUSED))
        return admission.denied(review.uid, FORBIDDEN, decision.text)

    def _record(self, decision: DecisionRecord) -> None:
        self._service.ports.decision_log.record(decision)


def _replacing(device: str) -> dict[str, object]:
    path = "/status/allocation/devices/results/0/device"
    return {"op": "replace", "path": path, "value": device}


def _before(review: AdmissionRequest) -> Claim | None:
    """The allocation that the claim has already: only its consumers can change any more."""
    old = bytes(review.old_object)
    return None if old in (b"", b"null") else allocated(body.read(old, _CLAIM))
