"""What each call does; errors are exceptions here and status codes in ``server``."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import islice

import msgspec

from adapters.dialects.adopt import may_use_cards
from adapters.sidecar.decide.committer import Committed
from adapters.sidecar.decide.ledger_writer import LedgerContended
from adapters.sidecar.decide.pod_requests import PodRequest
from adapters.sidecar.decide.ports import DecisionRecord, Outcome
from adapters.sidecar.decide.service import Service
from adapters.sidecar.grpc import dragoman_pb2 as pb
from adapters.sidecar.grpc import messages
from adapters.wire import body
from adapters.wire.kube import Pod, full_name
from core.ledger.node_ledger import NodeLedger
from core.requests.decision import Decision
from core.requests.pod_ref import PodRef
from core.requests.reason import Reason

ATTEMPTS = 5
"""Nodes on which an allocation is tried whose room others were faster to take."""

PAGE = 500
"""Nodes on a page, at most."""

POLL = 0.1
"""Seconds between two looks at what has changed."""

_POD = msgspec.json.Decoder(Pod)


class NothingFitsError(RuntimeError):
    """No candidate has room; the text says why."""


class StateError(RuntimeError):
    """The pod is not in the state that the call is for."""


class ElsewhereError(RuntimeError):
    """The pod has cards of a node that the caller does not want."""


class Calls:
    """All calls, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        """Give a pod its cards.

        Raises:
            NotReady, UnknownPod, DialectError, StateError, NothingFitsError, ElsewhereError, Busy,
            BindError, OSError: as their classes say.
        """
        service = self._service
        service.check_ready()
        pod = await self._find(request.pod)
        asking = service.pod_requests.read(pod)
        if asking is None:
            raise StateError(f"pod {full_name(pod)} asks for no share of a card")
        if pod.spec.node_name or not holds_later(pod):
            raise StateError(f"pod {full_name(pod)} is bound already, or has finished")
        names = list(dict.fromkeys(request.nodes)) or service.ledgers.inventory.names()
        for _ in range(ATTEMPTS):
            node = self._node(asking, names)
            given = await self._give(asking, node, bind=request.bind)
            if isinstance(given, Committed):
                self._tell(asking, node, bound=request.bind)
                result = service.written(asking, given)
                return pb.AllocateResponse(
                    node=node,
                    grants=messages.grants(given.placement.grants),
                    annotations=dict(result.annotations),
                    labels=dict(result.labels),
                    attempt=given.since,
                    bound=request.bind,
                )
        raise LedgerContended("others took the room each time")

    async def release(self, request: pb.ReleaseRequest) -> pb.ReleaseResponse:
        """Take back what ``allocate`` gave.

        Raises:
            NotReady, StateError, Busy, OSError: as their classes say.
        """
        service = self._service
        service.check_ready()
        found = dict(service.ledgers.committed(request.uid)).get(request.node)
        if found is None:
            return pb.ReleaseResponse(released=False)
        pod = await service.ports.pods.newest(found.pod_ref)
        if pod is not None and pod.metadata.uid == request.uid and may_use_cards(pod):
            raise StateError(f"pod {found.pod} is bound; its cards are free when it is gone")
        if not await service.committer.release(request.uid, request.node, request.attempt):
            if dict(service.ledgers.committed(request.uid)).get(request.node) is None:
                return pb.ReleaseResponse(released=False)
            raise StateError(f"a later attempt to bind pod {found.pod} has begun")
        service.ports.decision_log.record(
            DecisionRecord(
                "grpc_release",
                Outcome.RELEASED,
                found.pod,
                request.uid,
                found.dialect,
                request.node,
            )
        )
        return pb.ReleaseResponse(released=True)

    async def explain(self, request: pb.ExplainRequest) -> pb.ExplainResponse:
        """Where a pod fits.

        Raises:
            NotReady, UnknownPod, DialectError, BodyError, OSError: as their classes say.
        """
        service = self._service
        service.check_ready()
        if request.WhichOneof("of") == "manifest":
            pod = body.read(request.manifest, _POD)
        else:
            pod = await self._find(request.pod)
        asking = service.pod_requests.read(pod)
        if asking is None:
            return pb.ExplainResponse(summary="asks for no share of a card")
        names = service.ledgers.inventory.names()
        survey = service.evaluate(asking)
        fits = [name for name in names if survey.fits(name)]
        refused = survey.rejections([name for name in names if name not in set(fits)])
        placement = survey.best()
        decision = Decision(placement, {name: one.reason for name, one in refused.items()})
        return pb.ExplainResponse(
            dialect=asking.dialect.name,
            summary=decision.summary(),
            best=placement.node if placement else "",
            fits=fits,
            refused={
                **{name: one.reason.text() for name, one in refused.items()},
                **service.ledgers.problems(),
            },
            preemption_may_help=sorted(n for n, one in refused.items() if not one.unresolvable),
            notes=list(asking.request.notes),
        )

    async def list_cards(self, request: pb.ListCardsRequest) -> pb.ListCardsResponse:
        """Cards, page by page.

        Raises:
            NotReady: as its class says.
        """
        self._service.check_ready()
        inventory = self._service.ledgers.inventory
        if request.node:
            ledger = inventory.get(request.node)
            return pb.ListCardsResponse(cards=messages.cards(ledger) if ledger else ())
        size = min(request.page_size or PAGE, PAGE)
        names = sorted(name for name in inventory.names() if name > request.page_token)
        return pb.ListCardsResponse(
            cards=[
                card
                for name in islice(names, size)
                for card in messages.cards(inventory.ledger(name))
            ],
            next_page_token=names[size - 1] if len(names) > size else "",
        )

    async def watch_ledger(self, request: pb.WatchLedgerRequest) -> AsyncIterator[pb.LedgerChange]:
        """Every node as it is, then each that changes, for ever.

        Raises:
            NotReady: as its class says.
        """
        self._service.check_ready()
        book, wanted = self._service.ledgers, frozenset(request.nodes)
        told: dict[str, NodeLedger | str] = {}
        seen = -1
        while True:
            if seen != book.revision:
                first, seen = seen < 0, book.revision
                now: dict[str, NodeLedger | str] = {
                    ledger.node.name: ledger for ledger in book.inventory
                }
                now |= book.problems()
                for name in sorted({*now, *told}):
                    if now.get(name) is told.get(name) or (wanted and name not in wanted):
                        continue
                    yield _change(name, now.get(name))
                told = now
                if first:
                    yield pb.LedgerChange(synced=True)
            await asyncio.sleep(POLL)

    async def _find(self, pod: pb.Pod) -> Pod:
        return await self._service.find(PodRef(pod.namespace or "default", pod.name, pod.uid))

    def _node(self, asking: PodRequest, names: Sequence[str]) -> str:
        """Where a pod goes: where it has cards already, else where it fits best.

        Raises:
            ElsewhereError: it has cards of a node that is no candidate.
            NothingFitsError: no candidate has room.
        """
        service = self._service
        for node, _ in service.ledgers.committed(asking.request.uid):
            if node not in names:
                raise ElsewhereError(f"pod {asking.request.pod} has cards of {node} already")
            return node
        placement = service.decide(asking, names).placement
        if placement is not None:
            return placement.node
        refused = service.evaluate(asking).rejections(names)
        told = service.refusal("grpc_allocate", asking.pod, refused, asking, len(names))
        service.ports.decision_log.record(told)
        raise NothingFitsError(told.text)

    async def _give(self, asking: PodRequest, node: str, *, bind: bool) -> Committed | Reason:
        if bind:
            return await self._service.bind(asking, node)
        return await self._service.committer.commit(asking, node)

    def _tell(self, asking: PodRequest, node: str, *, bound: bool) -> None:
        outcome = Outcome.BOUND if bound else Outcome.HELD
        self._service.ports.decision_log.record(
            DecisionRecord(
                "grpc_allocate",
                outcome,
                asking.request.pod,
                asking.request.uid,
                asking.dialect.name,
                node,
            )
        )


def holds_later(pod: Pod) -> bool:
    """Whether a pod can be bound at all: it has not finished, and is not about to go."""
    return pod.status.phase in (None, "Pending") and pod.metadata.deletion_timestamp is None


def _change(name: str, now: NodeLedger | str | None) -> pb.LedgerChange:
    if isinstance(now, str):
        return messages.change(name, None, now)
    return messages.change(name, now, None)
