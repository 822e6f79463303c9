"""What kube-scheduler and koord-scheduler ask: filter, prioritize, bind, preempt."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import compress, repeat

import numpy as np

from adapters.dialects.dialect import DialectError
from adapters.sidecar.decide.ledger_writer import LedgerContended
from adapters.sidecar.decide.pod_requests import PodRequest
from adapters.sidecar.decide.ports import BindError, DecisionRecord, NodeLocked, Outcome
from adapters.sidecar.decide.preemption import Proposal, choose
from adapters.sidecar.decide.scores import spread
from adapters.sidecar.decide.service import Service, UnknownPod, invalid, main_cause
from adapters.wire import extender
from adapters.wire.body import BodyError
from adapters.wire.extender import ExtenderArgs, NodeItems
from adapters.wire.kube import Pod, full_name
from adapters.wire.name_index import NameList
from core.feasibility.arrays import Mask
from core.requests.pod_ref import PodRef
from core.requests.reason import Reason

BINDING = 48
"""Binds in progress, past which the next filter waits for one of them to end.

kube-scheduler begins as many binds as it has placed pods, and gives each up after its timeout:
where the API server is slower than that, ever more of them would be done for nothing.
"""

PATIENCE = 2.0
"""Seconds that a filter waits for a bind at most."""

_UNSURE = "no good answer to the Binding, so that the pod may be bound"

Failed = tuple[dict[str, str], dict[str, str]]
"""By node, why it will not do: where preemption may help, and where it will not."""


class KubeExtender:
    """Answers an extender's four questions, bytes in and bytes out.

    Every method raises ``BodyError`` for a body that cannot be used, and ``NotReady`` before the
    ledgers are known.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._binding = 0
        self._bound = asyncio.Event()

    async def filter(self, content: bytes) -> bytes:
        """The nodes that fit; why none does, where none does. Nothing is written."""
        await self._room_to_bind()
        self._service.check_ready()
        args = extender.read_args(content)
        pod = _pod(args.pod)
        names = _names(args)
        if args.nodes is not None and self._all_unknown(names):
            problem = f"none of the {len(names)} nodes has a ledger here"
            self._tell(DecisionRecord("filter", Outcome.ERROR, full_name(pod), text=problem))
            return extender.filter_names(b"[]", {}, {}, problem)
        try:
            asking = self._service.pod_requests.read(pod)
        except DialectError as error:
            self._tell(invalid("filter", pod, error))
            return _none(args, ({}, dict.fromkeys(names.strings(), str(error))))
        if asking is None:
            return _answer(args, names, np.ones(len(names), np.bool_))
        fits = await self._service.feasibility.fitting(asking, names)
        fitting = int(np.count_nonzero(fits))
        self._service.waits(asking, refused=not fitting)
        if fitting:
            outcome = DecisionRecord(
                "filter",
                Outcome.FITS,
                full_name(pod),
                pod.metadata.uid,
                asking.dialect.name,
                nodes_fitting=fitting,
                nodes_evaluated=len(names),
            )
            self._tell(outcome)
            return _answer(args, names, fits)
        return _none(args, self._why_none(pod, asking, names.strings()))

    async def prioritize(self, content: bytes) -> bytes:
        """How good each node is, 0 to 10, by the order that the pod's vocabulary means."""
        self._service.check_ready()
        args = extender.read_args(content)
        pod = _pod(args.pod)
        names = _names(args)
        try:
            asking = self._service.pod_requests.read(pod)
        except DialectError as error:
            self._tell(invalid("prioritize", pod, error))
            asking = None
        if asking is None:
            return extender.priorities(names, repeat(0, len(names)))
        ranks = self._service.feasibility.ranks(asking, names)
        scores = spread(ranks, extender.MAX_SCORE).tolist()
        return extender.priorities(names, scores)

    async def bind(self, content: bytes) -> bytes:
        """Give the pod its cards and bind it; an error keeps it unbound."""
        self._service.check_ready()
        self._binding += 1
        try:
            return await self._bind(content)
        finally:
            self._binding -= 1
            self._bound.set()

    async def _bind(self, content: bytes) -> bytes:
        args = extender.read_binding(content)
        ref = PodRef(args.pod_namespace, args.pod_name, args.pod_uid)
        told = DecisionRecord("bind", Outcome.ERROR, str(ref), ref.uid, node=args.node)
        try:
            pod = await self._service.find(ref)
            asking = self._service.pod_requests.read(pod)
            if asking is None:
                await self._service.bind_plain(pod, args.node)
                self._tell(_with(told, Outcome.UNTOUCHED))
                return extender.binding_result()
            told = _with(told, Outcome.ERROR, dialect=asking.dialect.name)
            found = await self._service.bind(asking, args.node)
        except DialectError as error:
            return self._not_bound(_with(told, Outcome.INVALID, "invalid", str(error)))
        except NodeLocked as error:
            return self._not_bound(_with(told, Outcome.REFUSED, "locked", str(error)))
        except (UnknownPod, LedgerContended) as error:
            return self._not_bound(_with(told, Outcome.ERROR, "retry", str(error)))
        except BindError as error:
            said = "the API server refused the Binding" if error.definite else _UNSURE
            text = f"{said}: {error}"
            return self._not_bound(_with(told, Outcome.ERROR, "binding", text))
        except OSError as error:
            text = f"no answer from the ledger's store or the cluster: {error}"
            return self._not_bound(_with(told, Outcome.ERROR, "store", text))
        if isinstance(found, Reason):
            text = f"{args.node}: {found.text()}"
            return self._not_bound(_with(told, Outcome.REFUSED, main_cause([found]), text))
        self._tell(_with(told, Outcome.BOUND))
        return extender.binding_result()

    async def preempt(self, content: bytes) -> bytes:
        """For each node, who must go so that the pod fits.

        Nodes where that does not help are left out, and nodes where nobody needs to go.
        """
        self._service.check_ready()
        args = extender.read_preemption(content)
        pod = _pod(args.pod)
        named = _named_victims(args)
        try:
            asking = self._service.pod_requests.read(pod)
        except DialectError as error:
            self._tell(invalid("preempt", pod, error))
            return extender.preemption_result({})
        if asking is None:
            return extender.preemption_result(named)
        found = await choose(self._service, asking, named)
        self._tell(
            DecisionRecord(
                "preempt",
                Outcome.FITS if found else Outcome.REFUSED,
                full_name(pod),
                pod.metadata.uid,
                asking.dialect.name,
                cause="" if found else "no_victims",
                nodes_fitting=len(found),
                nodes_evaluated=len(named),
            )
        )
        return extender.preemption_result(found)

    async def _room_to_bind(self) -> None:
        """Wait until not too many binds are in progress, for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._binding >= BINDING:
                    self._bound.clear()
                    await self._bound.wait()

    def _why_none(self, pod: Pod, asking: PodRequest, names: Sequence[str]) -> Failed:
        refused = self._service.evaluate(asking).rejections(names)
        self._tell(self._service.refusal("filter", pod, refused, asking, len(names)))
        failed = {name: one.reason.text() for name, one in refused.items() if not one.unresolvable}
        forever = {name: one.reason.text() for name, one in refused.items() if one.unresolvable}
        return failed, forever

    def _all_unknown(self, names: NameList) -> bool:
        book = self._service.ledgers
        return not any(book.ledger(name) or book.problem(name) for name in names.strings())

    def _not_bound(self, decided: DecisionRecord) -> bytes:
        self._tell(decided)
        return extender.binding_result(decided.text)

    def _tell(self, decided: DecisionRecord) -> None:
        self._service.ports.decision_log.record(decided)


def _pod(pod: Pod | None) -> Pod:
    if pod is None or not pod.metadata.name:
        raise BodyError("Pod.metadata.name is missing")
    return pod


def _names(args: ExtenderArgs) -> NameList:
    if args.node_names is not None:
        return args.node_names
    return NameList.of(extender.node_names(args.nodes or NodeItems()))


def _answer(args: ExtenderArgs, names: NameList, fits: Mask) -> bytes:
    """The nodes that fit, in the form of the question."""
    if args.node_names is not None or args.nodes is None:
        return extender.filter_names(names.json_array(fits), {}, {})
    return extender.filter_nodes(list(compress(args.nodes.items or (), fits.tobytes())), {}, {})


def _none(args: ExtenderArgs, failed: Failed) -> bytes:
    """Why no node fits, in the form of the question."""
    if args.node_names is not None or args.nodes is None:
        return extender.filter_names(b"[]", *failed)
    return extender.filter_nodes((), *failed)


def _named_victims(
    args: extender.PreemptionArgs,
) -> dict[str, Proposal]:
    named: dict[str, Proposal] = {}
    for node, meta in (args.node_name_to_meta_victims or {}).items():
        pods = (meta.pods if meta else None) or ()
        named[node] = ([pod.uid for pod in pods], meta.num_pdb_violations if meta else 0)
    for node, full in (args.node_name_to_victims or {}).items():
        if node not in named:
            pods_in_full = (full.pods if full else None) or ()
            uids = [pod.metadata.uid for pod in pods_in_full]
            named[node] = (uids, full.num_pdb_violations if full else 0)
    return named


def _with(
    told: DecisionRecord, outcome: Outcome, cause: str = "", text: str = "", dialect: str = ""
) -> DecisionRecord:
    return DecisionRecord(
        told.verb,
        outcome,
        told.pod,
        told.uid,
        dialect or told.dialect,
        told.node,
        cause,
        text,
    )
