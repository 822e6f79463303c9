"""Admission of allocations of ResourceClaims, before the API server writes them.

Schedulers write ``status.allocation`` when they have chosen the devices of a claim, once. That
write is the commit point for every scheduler of Dynamic Resource Allocation, as the Binding is for
pods: the cards are committed to the ledger, or the allocation is rejected with a reason, which
becomes the pod's Event. A rejection has status 403: schedulers repeat a write with 409 five times.

What is decided: ``decide.commit.claim_review``.
"""

from dataclasses import dataclass, replace

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import allocated
from adapters.service.decide.commit import claim_review
from adapters.service.decide.commit.attempt import IN_USE, ClaimOption, ClaimRefusal
from adapters.service.decide.ports import DecisionRecord, LiveClaims, Outcome
from adapters.service.decide.service import Service
from adapters.service.endpoints.outcomes import ERRORS, FORBIDDEN, UNAVAILABLE, deny, failed
from adapters.wire import admission
from adapters.wire.admission import AdmissionRequest, Patch

PREFIX = "dragoman: "
"""First words of a denial: schedulers write the denial into the pod's Event."""


@dataclass(eq=False, slots=True)
class ClaimAdmission:
    """Answers reviews of ``resourceclaims/status``; raises as ``KubeExtender`` does."""

    _service: Service
    _catalog: ClaimCache
    _live: LiveClaims

    async def statuses(self, content: bytes) -> bytes:
        """Commit a new allocation of a claim before its status is written, or reject it."""
        review = admission.read_review(content)
        facts = self._facts(review)
        if facts is None:
            return admission.allowed(review.uid)
        log, claim = self._service.ports.decision_log, facts.claim
        consumers = tuple(map(str, claim.pods))
        decision = DecisionRecord(
            "claim", Outcome.ERROR, claim.name, claim.uid, DRA, consumers=consumers
        )
        answer = claim_review.decide_claim(facts)
        if answer is None:
            log.record(replace(decision, outcome=Outcome.UNTOUCHED))
            return admission.allowed(review.uid)
        decision = replace(decision, node=answer.node)
        began = self._service.ports.clock.now()
        try:
            if isinstance(answer, ClaimOption):
                answer = await self._commit(facts, answer, dry_run=review.dry_run)
            if isinstance(answer, ClaimOption):
                self._service.check_age(began)
        except ERRORS as error:
            decision, status = failed(decision, error)
            code = UNAVAILABLE if status == UNAVAILABLE else FORBIDDEN
            return deny(log, review.uid, code, decision, PREFIX)
        if isinstance(answer, ClaimRefusal):
            outcome, cause, text = Outcome.REFUSED, answer.cause, answer.text
            decision = replace(decision, outcome=outcome, cause=cause, text=text)
            return deny(log, review.uid, FORBIDDEN, decision, PREFIX)
        patch: Patch = []  # what the status lacks: shares, and another device
        results = zip(claim.all_results, answer.claim.all_results, strict=True)
        for number, (before, after) in enumerate(results):
            path = f"/status/allocation/devices/results/{number}"
            if after.share_id != before.share_id:
                amounts = after.consumed_capacity
                patch.append({"op": "add", "path": f"{path}/shareID", "value": after.share_id})
                patch.append({"op": "add", "path": f"{path}/consumedCapacity", "value": amounts})
            if after.device != before.device:
                patch.append({"op": "replace", "path": f"{path}/device", "value": after.device})
        if not review.dry_run:
            outcome = Outcome.CORRECTED if patch else Outcome.ADOPTED
            log.record(replace(decision, outcome=outcome))
        return admission.allowed(review.uid, patch)

    def _facts(self, review: AdmissionRequest) -> claim_review.ClaimFacts | None:
        """Return what the decision depends on; None where no new allocation is to be written.

        Raises:
            BodyError: the claim is missing, or cannot be read.
            NotReady: as ``Service.check_ready``.
        """
        if review.operation != "UPDATE":
            return None
        requested, old = admission.read_claims(review)
        claim = allocated(requested)
        if claim is None or (old is not None and allocated(old) is not None):
            return None  # only the consumers of an allocation can change
        self._service.check_ready()
        pools = {(each.driver, each.pool) for each in claim.all_results}
        requests = requested.spec.devices.requests or ()
        names = {each.exactly.device_class_name for each in requests if each.exactly is not None}
        classes = {name: self._catalog.classes.get(name) for name in names}
        return claim_review.ClaimFacts(
            review.uid,
            claim,
            requested,
            claim_review.nodes_of(claim, self._service.ledgers),
            self._catalog.devices,
            {each: self._catalog.pool(*each, claim.nodes) for each in pools},
            {name: each for name, each in classes.items() if each is not None},
        )

    async def _commit(
        self, facts: claim_review.ClaimFacts, chosen: ClaimOption, *, dry_run: bool
    ) -> ClaimOption | ClaimRefusal:
        """Commit the chosen devices; where they are in use, the first free one that is as good.

        Its scheduler counts what ended pods and claims had as free before the ledger has it so.

        Raises:
            AlreadyPlaced: earlier attempts hold devices of too many nodes.
            LedgerContended: as ``Committer.commit``.
            OSError: the store or the API server did not answer.
        """
        claim = facts.claim.ref
        self._service.check_attempts(claim, chosen.node)
        refusal = claim_review.contradiction(facts.claim, await self._live.get(claim))
        if refusal is not None:
            return refusal
        answer = await self._place(chosen, dry_run=dry_run)
        if isinstance(answer, ClaimOption) or answer.cause != IN_USE:
            return answer
        freed = not dry_run and await self._service.release_ended(chosen.node)
        others = claim_review.as_good(facts, chosen)
        others = claim_review.without_taints(others, self._catalog.rules)
        options = (chosen, *others) if freed else others
        other = await self._place(*options, dry_run=dry_run) if options else answer
        return other if isinstance(other, ClaimOption) else answer

    async def _place(self, *options: ClaimOption, dry_run: bool) -> ClaimOption | ClaimRefusal:
        committer = self._service.committer
        if dry_run:
            return committer.preview_claim(*options)
        return await committer.commit_claim(*options)
