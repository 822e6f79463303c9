"""The extender of kube-scheduler and koord-scheduler: filter, prioritize, bind, preempt."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from itertools import compress, repeat

import numpy as np

from adapters.accounting.pod_requests import PodRequest
from adapters.answer.answer import OTHER_REASONS
from adapters.answer.claims import nodes_by_class, requested_by_class
from adapters.dialects.dialect import NO_RESULT, DialectError
from adapters.dialects.matching import amounts_of
from adapters.service.decide.advice.feasibility import NodeRejections
from adapters.service.decide.gang_state import GangRefusal
from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.decide.preemption import choose
from adapters.service.decide.service import Service, send_binding
from adapters.service.endpoints.outcomes import ERRORS, failed, read_request
from adapters.wire import extender
from adapters.wire.body import BodyError
from adapters.wire.extender import ExtenderArgs
from adapters.wire.kube import Pod, UnreadPod, full_name, pod_ref
from core.feasibility.columns import Mask
from core.requests.decision import main_cause
from core.requests.reason import Reason
from core.requests.request import PodRef

CONCURRENT_BINDS = 48
"""Maximum concurrent binds. At the limit, a filter call waits until a bind ends.

kube-scheduler starts one bind per placed pod and gives it up after a timeout. Without the limit, an
API server that is slower than this would be sent more and more binds that have been given up.
"""

FILTER_WAIT = 2.0
"""Seconds that a filter waits for a bind at most."""

PLACED_WAIT = 0.1
"""Seconds that a filter waits at most for the bind of a pod whose scheduler chose among nodes that
are equal here: the first of many. The next ones are placed beside it."""

Rejected = tuple[bytes, bytes]
"""Why a pod does not fit, as JSON by node: where its scheduler's preemption may help, and where it
cannot."""

REASONS = 4
"""Different reasons in one answer. A scheduler writes each of them into the pod's condition and
Events, and on many nodes that are used differently there may be as many reasons as nodes."""


class KubeExtender:
    """Answers the four calls of an extender, bytes in and bytes out.

    Every method raises ``BodyError`` for a body that cannot be used, and ``NotReady`` before the
    ledgers are known.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._decision_log = service.ports.decision_log
        self._binds = 0
        self._bind_ended, self._placed = asyncio.Event(), asyncio.Event()
        self._placed.set()

    async def filter(self, content: bytes, *, proposes_none: bool = False) -> bytes:
        """Return the nodes that fit; if none does, why not. Nothing is written.

        Koord-scheduler, and kube-scheduler up to 1.37, ask for victims only where they have found
        some: this extender is asked about nodes that passed their own filters. There their
        preemption finds none, reports an error for each of them, and tries the pod again at once.
        So it can resolve no rejection of ours. Source: kubernetes 1.37.1
        pkg/scheduler/framework/preemption/preemption.go, DryRunPreemption.

        With ``proposes_none`` it is kube-scheduler 1.38 or later, which asks for victims also where
        it has found none. Source: kubernetes/kubernetes#135486.
        """
        await self._wait_for_binds()
        self._service.check_ready()
        args = extender.read_args(content)
        pod = _named(args.pod)
        names, node = args.names, pod.spec.node_name
        if node:
            # Its resize waits for room there, and no quota, gang or lost card concerns that: an
            # assigned pod is scheduled again only so, and is never bound again. Source:
            # k8s.io/kubernetes v1.37.1 pkg/scheduler/eventhandlers.go, updatePod (gate
            # InPlacePodVerticalScalingSchedulerPreemption).
            if node not in names.names:
                return _fits_nowhere(args, f"the pod is bound to {node}")
            decision = DecisionRecord("filter", Outcome.FITS, full_name(pod), pod.metadata.uid)
            return self._fits_only(args, decision, node)
        pod_request = read_request(self._service, "filter", pod)
        if isinstance(pod_request, DialectError):
            return _fits_nowhere(args, str(pod_request))
        if pod_request is None:
            return self._fitting(args, np.ones(len(names), np.bool_))
        if (
            args.whole is not None
            and pod_request.request.plugin is None
            and not any(map(self._service.ledgers.has_record, names.names))
        ):
            problem = f"none of the {len(names)} nodes has a ledger here"
            unknown = DecisionRecord("filter", Outcome.ERROR, full_name(pod), text=problem)
            self._decision_log.record(unknown)
            return extender.filter_names(b"[]", error=problem)
        held = await self._service.gangs.place(pod_request, names)
        if isinstance(held, GangRefusal):
            return self._refuse(args, pod_request, "gang", held.text)
        place = None if held is not None else self._service.kept_place(pod_request)
        if place is not None and place.node in names.names:
            if not place.is_free:
                return self._refuse(args, pod_request, "kept", place.refusal(place.node))
            held = place.node
        if held is not None:
            self._service.waiting_pods.discard(pod_request.request.uid)
            self._service.rejected_pods.discard(pod_request.request.uid)
            return self._fits_only(args, _decision("filter", pod_request, Outcome.FITS), held)
        fits = await self._service.feasibility.fitting(pod_request, names)
        if pod_request.request.plugin is not None and not fits.all():
            facts, amounts = self._service.facts, amounts_of(pod, pod_request.request)
            if requested_by_class(pod, amounts, facts.claims) is not None:  # the arbiter decides
                own = nodes_by_class(amounts, facts.claims, facts.nodes(), names.names)
                fits |= np.fromiter((name in own for name in names.names), np.bool_)
        count = int(np.count_nonzero(fits))
        if not count:
            return await self._reject_all(args, pod_request, may_resolve=proposes_none)
        self._service.waiting_pods.discard(pod_request.request.uid)
        self._service.rejected_pods.discard(pod_request.request.uid)
        decision = _decision("filter", pod_request, Outcome.FITS)
        self._decision_log.record(
            replace(decision, nodes_fitting=count, nodes_evaluated=len(names))
        )
        return self._fitting(args, fits)

    async def prioritize(self, content: bytes) -> bytes:
        """Return how good each node is, 0 to 10, in the order that the pod's dialect prefers."""
        self._service.check_ready()
        args = extender.read_args(content)
        names = args.names
        pod_request = read_request(self._service, "prioritize", _named(args.pod))
        if pod_request is None or isinstance(pod_request, DialectError):
            return extender.priorities(names, np.zeros(len(names), np.int64))
        ranks = self._service.feasibility.ranks(pod_request, names)
        if ranks is None:
            return extender.priorities(names, np.zeros(len(names), np.int64))
        most = extender.MAX_SCORE
        scores, is_open = self._service.expected_pods.place(pod_request, names, ranks, most)
        if is_open:
            self._placed.clear()
        return extender.priorities(names, scores)

    async def bind(self, content: bytes) -> bytes:
        """Allocate cards to the pod and bind it; an error keeps it unbound."""
        self._service.check_ready()
        self._binds += 1
        self._placed.set()
        try:
            decision = await self._bind(content)
        finally:
            self._binds -= 1
            self._bind_ended.set()
        self._service.expected_pods.discard(decision.uid)
        self._decision_log.record(decision)
        return extender.binding_result(decision.text)

    async def preempt(self, content: bytes) -> bytes:
        """Return the pods that must be evicted so that the pod fits, by node.

        Nodes where that does not help are left out, and nodes where no eviction is needed.
        """
        self._service.check_ready()
        args = extender.read_preemption(content)
        pod = _named(args.pod)
        if pod.spec.node_name:  # its resize lacks processors or memory, not cards
            return extender.preemption_result(args.proposals)
        pod_request = read_request(self._service, "preempt", pod)
        if isinstance(pod_request, DialectError):
            return extender.preemption_result({})
        if pod_request is None:
            return extender.preemption_result(args.proposals)
        victims = await choose(self._service, pod_request, args.proposals)
        if victims:
            now = self._service.ports.clock.now()
            self._service.rejected_pods.named_victims(pod_request.request.uid, now)
        outcome = Outcome.FITS if victims else Outcome.REFUSED
        self._decision_log.record(
            replace(
                _decision("preempt", pod_request, outcome),
                cause="" if victims else "no_victims",
                nodes_fitting=len(victims),
                nodes_evaluated=len(args.proposals),
            )
        )
        return extender.preemption_result(victims)

    async def _bind(self, content: bytes) -> DecisionRecord:
        args = extender.read_binding(content)
        pod = PodRef(args.pod_namespace, args.pod_name, args.pod_uid)
        decision = DecisionRecord("bind", Outcome.ERROR, str(pod), pod.uid, node=args.node)
        try:
            found = await self._service.find(pod)
            if isinstance(found, UnreadPod):  # its filter could be read, and may have had a share
                found = await self._service.newest(pod)
            pod_request = self._service.pod_requests.read(found)
            if pod_request is None:
                await send_binding(self._service.ports, pod_ref(found), args.node, NO_RESULT)
                return replace(decision, outcome=Outcome.UNTOUCHED)
            decision = replace(decision, dialect=pod_request.dialect.name)
            self._service.expected_pods.correct(pod_request.request, args.node)
            refusal = await self._service.gangs.check_bind(pod_request)
            if refusal is not None:
                return replace(decision, outcome=Outcome.REFUSED, cause="gang", text=refusal.text)
            with self._service.gangs.binding(pod_request):
                committed = await self._service.bind(pod_request, args.node)
        except ERRORS as error:
            return failed(decision, error)[0]
        if isinstance(committed, Reason):
            text = f"{args.node}: {committed.text()}"
            cause = main_cause((committed, 1))
            return replace(decision, outcome=Outcome.REFUSED, cause=cause, text=text)
        outcome = Outcome.UNTOUCHED if committed.is_untouched else Outcome.BOUND
        return replace(decision, outcome=outcome)

    def _fits_only(self, args: ExtenderArgs, decision: DecisionRecord, node: str) -> bytes:
        """Return the one node to which a pod goes, or on which it is."""
        names = args.names.names
        self._decision_log.record(
            replace(decision, node=node, nodes_fitting=1, nodes_evaluated=len(names))
        )
        return self._fitting(args, np.fromiter((name == node for name in names), np.bool_))

    def _refuse(self, args: ExtenderArgs, pod_request: PodRequest, cause: str, text: str) -> bytes:
        """Return why the gang of a pod, or the place that is kept for it, gives it no cards now.

        No eviction for this pod alone can help it.
        """
        self._service.waiting_pods.add(pod_request)
        self._service.rejected_pods.discard(pod_request.request.uid)
        decision = _decision("filter", pod_request, Outcome.REFUSED)
        self._decision_log.record(
            replace(decision, cause=cause, text=text, nodes_evaluated=len(args.names))
        )
        return _fits_nowhere(args, text)

    async def _reject_all(
        self, args: ExtenderArgs, pod_request: PodRequest, *, may_resolve: bool
    ) -> bytes:
        """Return why each node does not fit, few reasons in all; the pod waits until one does.

        ``may_resolve``: the scheduler's preemption may resolve what evictions may.
        """
        self._service.waiting_pods.add(pod_request)
        every = np.ones(len(args.names), np.bool_)
        rejections = await self._service.feasibility.rejections(pod_request, args.names, every)
        counted = rejections.counts()
        self._decision_log.record(
            DecisionRecord.refused("filter", pod_request, counted, len(args.names))
        )
        resolvable = rejections.where(unresolvable=False)
        now = self._service.ports.clock.now()
        self._service.rejected_pods.rejected(pod_request, resolvable.names, now)
        counts = sorted(rejections.texts(), key=lambda each: (-each[1], each[0]))
        named = {text for text, _ in counts[: REASONS if len(counts) > REASONS + 1 else None]}
        own = [each.reason.text() for each in rejections.distinct]
        texts = [text if text in named else OTHER_REASONS for text in own]

        def of(some: NodeRejections) -> bytes:
            return extender.node_texts(some.names, texts, some.of_node.tolist())

        if may_resolve:
            return _none_fits(args, (of(resolvable), of(rejections.where(unresolvable=True))))
        return _none_fits(args, (extender.NO_NODES, of(rejections)))

    def _fitting(self, args: ExtenderArgs, fits: Mask) -> bytes:
        """Return the nodes that fit, in the form of the request."""
        if args.whole is not None:
            return extender.filter_nodes([*compress(args.encoded_nodes(), fits.tobytes())])
        return extender.filter_names(args.names.select(fits).array())

    async def _wait_for_binds(self) -> None:
        """Wait for a while until fewer binds are in progress, and it is known where a pod goes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PLACED_WAIT):
                await self._placed.wait()
        self._placed.set()
        if self._binds < CONCURRENT_BINDS:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(FILTER_WAIT):
                while self._binds >= CONCURRENT_BINDS:
                    self._bind_ended.clear()
                    await self._bind_ended.wait()


def _decision(verb: str, pod_request: PodRequest, outcome: Outcome) -> DecisionRecord:
    pod = pod_request.pod
    dialect = pod_request.dialect.name
    return DecisionRecord(verb, outcome, full_name(pod), pod.metadata.uid, dialect)


def _named(pod: Pod | None) -> Pod:
    if pod is None or not pod.metadata.name:
        raise BodyError("Pod.metadata.name is missing")
    return pod


def _fits_nowhere(args: ExtenderArgs, why: str) -> bytes:
    """Return one reason for all nodes, which no eviction resolves."""
    names = args.names
    text = extender.node_texts(names.names, [why], repeat(0, len(names)))
    return _none_fits(args, (extender.NO_NODES, text))


def _none_fits(args: ExtenderArgs, rejected: Rejected) -> bytes:
    """Return why no node fits, in the form of the request."""
    if args.whole is None:
        return extender.filter_names(b"[]", *rejected)
    return extender.filter_nodes((), *rejected)
