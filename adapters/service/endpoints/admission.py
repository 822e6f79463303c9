"""Admission webhooks: before the API server writes a pod, and before it binds one to a node.

The Binding is the commit point for every scheduler that does not bind through Dragoman. A choice
of cards that comes with it is adopted if it is valid, corrected on the same node if it is not, and
rejected if nothing fits there.
"""

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from adapters.accounting.pod_requests import PodRequest, read
from adapters.dialects import registry
from adapters.dialects.dialect import DialectError
from adapters.dialects.unread_keys import advice
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.commit.validate import is_valid
from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.decide.service import AlreadyPlaced, Service
from adapters.service.endpoints import pod_admission
from adapters.service.endpoints.outcomes import CONFLICT, ERRORS, FORBIDDEN, deny, failed
from adapters.wire import admission, body
from adapters.wire.admission import AdmissionRequest, Binding
from adapters.wire.decode.decoder import Decoder
from adapters.wire.kube import Pod, annotations, full_name, labels, with_annotations
from core.ledger.node_ledger import NodeLedger
from core.requests.decision import main_cause
from core.requests.grant import Grant
from core.requests.reason import Reason
from core.requests.request import PodRef

_POD = Decoder(Pod)

PATIENCE_NS, LOOK_NS = 400_000_000, 20_000_000
"""Nanoseconds for which a Binding waits until the watch reports that the pods with the chosen cards
have ended, and from one look to the next."""

CHANCES = 5
"""Times that a scheduler may choose other cards for a pod. It waits for 1 s before it tries again,
later for up to 10 s: kube-scheduler's ``podInitialBackoffSeconds`` and ``podMaxBackoffSeconds``."""

REMEMBERED = 4096
"""Pods whose scheduler was asked for another choice of cards; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class _BindingFacts:
    """What the answer to a review of a Binding depends on.

    Attributes:
        binding: as it was sent.
        pod_request: what the pod requests.
        merged: the pod with the annotations that the Binding brings, but for copies of a choice
            that is older than the pod's.
        choice: the cards that the scheduler chose; empty where no choice is readable.
            It is in the Binding, or on the pod if the scheduler wrote it there before.
        has_choice: whether there is one, readable or not.
    """

    binding: Binding
    pod_request: PodRequest
    merged: Pod
    choice: tuple[Grant, ...]
    has_choice: bool

    @property
    def has_older_copy(self) -> bool:
        """Whether the Binding would write an older choice over the pod's."""
        brought, merged = self.binding.metadata.annotations or {}, annotations(self.merged)
        return any(merged.get(key) != value for key, value in brought.items())


class Admission:
    """Answers reviews, bytes in and bytes out; raises as ``KubeExtender`` does."""

    def __init__(self, service: Service, required_plugin: str = "") -> None:
        """Answer for a service.

        ``required_plugin`` is the NRI plugin without which the container runtime creates no
        container that requests a share; empty to require none.
        """
        self._service = service
        self._decision_log = service.ports.decision_log
        self._required_plugin = required_plugin
        self._choosing_again: OrderedDict[str, int] = OrderedDict()

    async def pods(self, content: bytes) -> bytes:
        """Review a new pod: reject invalid requests, write defaults, void the devices."""
        review = admission.read_review(content)
        if review.operation != "CREATE" or review.sub_resource:
            return admission.allowed(review.uid)
        raw = admission.object_of(review)
        pod = body.read(raw, _POD)
        # At its creation only the review may have its namespace and name.
        meta = msgspec.structs.replace(
            pod.metadata,
            namespace=review.namespace or pod.metadata.namespace,
            name=pod.metadata.name or review.name or "(generated)",
        )
        pod = msgspec.structs.replace(pod, metadata=meta)
        facts = pod_admission.PodFacts(raw=raw, pod=pod)
        keys, dialects = registry.service_keys(), self._service.pod_requests.dialects
        written = (("annotations", annotations(pod)), ("labels", labels(pod)))
        forged = [
            f"metadata.{field}[{key}]"
            for field, entries in written
            for key in sorted(keys & entries.keys())
        ]
        try:
            if forged:
                facts = replace(facts, forged=forged[0])
            elif (found := read(pod, dialects)) is None:
                facts = replace(facts, advice=advice(pod, dialects))
            else:
                added = found.dialect.admission_defaults(pod, found.request)
                if self._required_plugin:
                    plugins = pod_admission.required(
                        self._required_plugin, pod_admission.sharers(found), annotations(pod)
                    )
                    added = replace(added, annotations={**added.annotations, **plugins})
                large, hints = self._service.quotas.too_large(found.request), advice(pod, dialects)
                facts = replace(facts, found=found, added=added, too_large=large, advice=hints)
        except DialectError as error:
            facts = replace(facts, found=error)
        name, uid = full_name(pod), pod.metadata.uid
        match pod_admission.decide_pod(facts):
            case pod_admission.Deny(cause, text):
                denied = DecisionRecord("admit", Outcome.INVALID, name, uid, cause=cause, text=text)
                return deny(self._decision_log, review.uid, FORBIDDEN, denied)
            case pod_admission.Allow(notes, dialect, patch):
                if dialect:
                    self._decision_log.record(
                        DecisionRecord("admit", Outcome.FITS, name, dialect=dialect)
                    )
                return admission.allowed(review.uid, patch, notes)

    async def bindings(self, content: bytes) -> bytes:
        """Review a Binding: commit the pod's cards, and write them into the Binding."""
        review = admission.read_review(content)
        if review.operation != "CREATE":
            return admission.allowed(review.uid)
        self._service.check_ready()
        binding = admission.read_binding(review)
        pod = PodRef(
            review.namespace or binding.metadata.namespace or "default",
            review.name or binding.metadata.name,
            binding.metadata.uid,
        )
        node = binding.target.name
        decision = DecisionRecord("binding", Outcome.ERROR, str(pod), pod.uid, node=node)
        began = self._service.ports.clock.now()
        try:
            facts = await self._binding_facts(pod, binding)
            if facts is None:
                return admission.allowed(review.uid)
            pod_request = facts.pod_request
            uid, dialect = pod_request.request.uid, pod_request.dialect.name
            decision = replace(decision, uid=uid, dialect=dialect)
            placed_on = pod_request.pod.spec.node_name
            if placed_on:
                raise AlreadyPlaced(f"pod {pod} is bound to {placed_on} already")
            self._service.check_attempts(replace(pod, uid=uid), node)
            if review.dry_run:
                rejection = self._service.feasibility.evaluate(pod_request).rejection(node)
                if rejection is None:
                    return admission.allowed(review.uid)
                text = rejection.reason.text()
                decision = replace(decision, outcome=Outcome.REFUSED, cause="dry_run", text=text)
                return deny(self._decision_log, review.uid, CONFLICT, decision)
            place = self._service.kept_place(pod_request)
            if place is not None:
                text = place.refusal(node)
                if text:
                    decision = replace(decision, outcome=Outcome.REFUSED, cause="kept", text=text)
                    return deny(self._decision_log, review.uid, CONFLICT, decision)
            elif (
                await self._stays_taken(facts)
                and self._may_choose_again(pod_request)
                and not await self._service.committer.allows(pod_request, node, facts.choice)
            ):
                text = f"{node}: the chosen cards are in use; choose again"
                decision = replace(decision, outcome=Outcome.REFUSED, cause="choice", text=text)
                return deny(self._decision_log, review.uid, CONFLICT, decision)
            return await self._commit(review, facts, decision, began)
        except ERRORS as error:
            decision, status = failed(decision, error)
            return deny(self._decision_log, review.uid, status, decision)

    async def _commit(
        self, review: AdmissionRequest, facts: _BindingFacts, decision: DecisionRecord, began: int
    ) -> bytes:
        """Commit the pod's cards; what the Binding lacks of them is the answer's patch.

        Raises:
            BindError: the review began, at ``began``, too long ago.
        """
        uid, node = facts.pod_request.request.uid, facts.binding.target.name
        committed: Committed | Reason | None = self._service.binding_in_progress(uid, node)
        if committed is None:
            committed, _ = await self._service.commit(facts.pod_request, node, facts.choice)
        if isinstance(committed, Reason):
            text = f"{node}: {committed.text()}"
            cause = main_cause((committed, 1))
            decision = replace(decision, outcome=Outcome.REFUSED, cause=cause, text=text)
            return deny(self._decision_log, review.uid, CONFLICT, decision)
        if not committed.is_untouched:
            self._service.check_age(began)
        is_complete = False
        if committed.is_untouched:
            outcome, is_complete = Outcome.UNTOUCHED, True
        elif facts.choice and facts.choice == committed.placement.grants:
            outcome = Outcome.ADOPTED if committed.choice_accepted else Outcome.BOUND
            # Beside a slice the record states what was requested, which no grant has.
            is_complete = not any(grant.slice for grant in facts.choice)
            is_complete = is_complete and not facts.has_older_copy
        else:
            outcome = Outcome.CORRECTED if facts.has_choice else Outcome.BOUND
        self._decision_log.record(replace(decision, outcome=outcome))
        meta, pod_request = facts.binding.metadata, facts.pod_request
        if is_complete:
            mirrored = self._service.mirrors(pod_request, committed)
            patch = admission.add_entries("annotations", meta.annotations, mirrored)
            return admission.allowed(review.uid, patch if mirrored else None)
        result = self._service.result(replace(pod_request, pod=facts.merged), committed)
        # What is no longer true is removed, what the Binding lacks is added.
        stale = (meta.annotations or {}).keys() & pod_request.dialect.result_keys
        patch = [
            {"op": "remove", "path": f"/metadata/annotations/{admission.escaped(key)}"}
            for key in sorted(stale - result.annotations.keys())
        ]
        patch += admission.add_entries("annotations", meta.annotations, result.annotations)
        patch += admission.add_entries("labels", meta.labels, result.labels)
        return admission.allowed(review.uid, patch)

    async def _stays_taken(self, facts: _BindingFacts) -> bool:
        """Wait a moment while others have the chosen cards; whether they have them after it.

        A scheduler that chooses counts the cards of a pod as free when the API server reports that
        it is gone. If the watch has reported that too, this replica writes the ledger, so that the
        pod that came first gets the cards. The commit decides, as without a wait.

        Raises:
            LedgerContended: the ledger could not be written.
            OSError: the store or the cluster did not answer.
        """
        clock, node = self._service.ports.clock, facts.binding.target.name
        request, choice = facts.pod_request.request, facts.choice
        until = clock.now() + PATIENCE_NS
        while True:
            ledger = self._service.ledgers.ledger(node)
            if not choice or ledger is None or request.uid in ledger.allocations:
                return False
            # What no choice can state, such as a partition or the containers of a record that names
            # none, is no reason to wait: the choice would not be valid on the idle node either.
            is_right = is_valid(request, choice, NodeLedger.of(ledger.node))
            if not is_right or is_valid(request, choice, ledger):
                return False
            if await self._service.release_ended(node):
                continue
            if clock.now() >= until:
                return True
            await clock.sleep(LOOK_NS)

    def _may_choose_again(self, pod_request: PodRequest) -> bool:
        """Return whether a scheduler should choose other cards by itself; a few times for each pod.

        One that goes on counting what it chose would miscount if the Binding brought others, for
        as long as it runs, and then choose cards that are in use for other pods too. It sees who
        has the cards where its records are mirrored. Where it insists, it gets others.
        """
        uid, dialect = pod_request.request.uid, pod_request.dialect
        chances = self._choosing_again.get(uid, 0)
        if not dialect.keeps_choice or dialect not in self._service.mirrored or chances == CHANCES:
            return False
        self._choosing_again[uid] = chances + 1
        if len(self._choosing_again) > REMEMBERED:
            self._choosing_again.popitem(last=False)
        return True

    async def _binding_facts(self, pod: PodRef, binding: Binding) -> _BindingFacts | None:
        """Return what the answer depends on; None where the pod requests no share.

        Schedulers write the choice on the pod just before they bind it, so the watch may not have
        reported it yet: the pod is read from the API server, unless this process made the choice or
        the ledger has it. So is one that is bound by the watch: it may have been created again.

        What the API server's pod has of a choice counts before what the Binding has: vc-scheduler
        copies into it the annotations that the pod had before its plugin chose again. Source:
        volcano.sh/volcano 1.14.1 pkg/scheduler/cache/cache.go (DefaultBinder.Bind), vgpu/utils.go
        (patchPodAnnotations).
        """
        service, node = self._service, binding.target.name
        pod_request = service.pod_requests.read(await service.find(pod))
        if pod_request is None:
            return None
        brought = binding.metadata.annotations or {}
        uid = pod_request.request.uid
        is_newest = not pod_request.pod.spec.node_name and (
            service.chose_cards(uid, node)
            or service.feasibility.evaluate(pod_request).is_untouched(node)
            or (
                pod_request.dialect.has_result(with_annotations(pod_request.pod, brought))
                and any(name == node for name, _ in service.ledgers.committed(uid))
            )
        )
        if not is_newest:
            pod_request = service.pod_requests.read(await service.newest(pod))
            if pod_request is None:
                return None
            if pod_request.dialect.has_result(pod_request.pod):
                keys = pod_request.dialect.result_keys
                brought = {key: value for key, value in brought.items() if key not in keys}
        merged = with_annotations(pod_request.pod, {**annotations(pod_request.pod), **brought})
        has_choice = pod_request.dialect.has_result(merged)
        ledger = service.ledgers.ledger(node) if has_choice else None
        choice: tuple[Grant, ...] = ()
        if ledger is not None:
            with suppress(DialectError):  # a record that cannot be read is no choice
                choice = pod_request.dialect.read_result(merged, pod_request.request, ledger.node)
        return _BindingFacts(binding, pod_request, merged, choice, has_choice=has_choice)
