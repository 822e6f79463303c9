"""What each call does. Errors are exceptions here, those of ``server._CODES``."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice

from adapters.dialects.adoption import may_use_cards
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.decide.service import Service
from adapters.service.grpc import dragoman_pb2 as pb
from adapters.wire import body
from adapters.wire.body import MOST_ITEMS, BodyError
from adapters.wire.decode.decoder import Decoder
from adapters.wire.kube import Pod, full_name
from core.feasibility.inventory import NodeNames
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant
from core.requests.request import PodRef

ATTEMPTS = 5
"""Nodes that are tried when other pods take the cards between the decision and the commit."""

PAGE = 500
"""The most nodes of a page."""

POLL = 0.1
"""Seconds between two checks for changes."""

_POD = Decoder(Pod)


class NothingFitsError(RuntimeError):
    """The pod fits no candidate; the text says why."""


class StateError(RuntimeError):
    """The call does not apply to the state of the pod."""


class ElsewhereError(RuntimeError):
    """The pod has cards of a node that is no candidate."""


class Calls:
    """All calls, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        """Allocate cards to a pod, and bind it if the request says so."""
        service = self._service
        service.check_ready()
        pod = await self._find(request.pod)
        pod_request = service.pod_requests.read(pod)
        if pod_request is None:
            raise StateError(f"pod {full_name(pod)} requests no share of a card")
        is_over = pod.status.phase not in (None, "Pending") or pod.metadata.deletion_timestamp
        if pod.spec.node_name or is_over:
            raise StateError(f"pod {full_name(pod)} is bound already, or has finished")
        if len(request.nodes) > MOST_ITEMS:
            raise BodyError(f"nodes has more than {MOST_ITEMS} names")
        names = list(dict.fromkeys(request.nodes)) or service.ledgers.inventory.names()
        uid, named = pod_request.request.uid, pod_request.request.pod
        for _ in range(ATTEMPTS):
            node = next((held for held, _ in service.ledgers.committed(uid)), None)
            if node is None:
                evaluation = service.feasibility.evaluate(pod_request)
                placement = evaluation.best(NodeNames(names))
                if placement is None:
                    counted = [(each, 1) for each in evaluation.rejections(names).values()]
                    decision = DecisionRecord.refused(
                        "grpc_allocate", pod_request, counted, len(names)
                    )
                    service.ports.decision_log.record(decision)
                    raise NothingFitsError(decision.text)
                node = placement.node
            elif node not in names:
                raise ElsewhereError(f"pod {named} has cards of {node} already")
            committed = (
                await service.bind(pod_request, node)
                if request.bind
                else await service.committer.commit(pod_request, node)
            )
            if isinstance(committed, Committed):
                outcome = Outcome.BOUND if request.bind else Outcome.HELD
                dialect = pod_request.dialect.name
                service.ports.decision_log.record(
                    DecisionRecord("grpc_allocate", outcome, named, uid, dialect, node)
                )
                result = service.result(pod_request, committed)
                return pb.AllocateResponse(
                    node=node,
                    grants=grant_messages(committed.placement.grants),
                    annotations=dict(result.annotations),
                    labels=dict(result.labels),
                    attempt=committed.attempt,
                    bound=request.bind,
                )
        raise LedgerContended("other pods took the cards each time")

    async def release(self, request: pb.ReleaseRequest) -> pb.ReleaseResponse:
        """Release what ``allocate`` allocated."""
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
        released = (Outcome.RELEASED, found.pod, request.uid, found.dialect, request.node)
        service.ports.decision_log.record(DecisionRecord("grpc_release", *released))
        return pb.ReleaseResponse(released=True)

    async def explain(self, request: pb.ExplainRequest) -> pb.ExplainResponse:
        """Return where a pod fits, and why it does not fit the other nodes."""
        service = self._service
        service.check_ready()
        if request.WhichOneof("of") == "manifest":
            pod = body.read(request.manifest, _POD)
        else:
            pod = await self._find(request.pod)
        service.pod_requests.read(pod)
        found = await service.explain(pod)
        answer = found.answer
        return pb.ExplainResponse(
            dialect=answer.dialect or "",
            summary=answer.summary(),
            best=answer.best or "",
            fits=answer.fitting,
            refused=answer.texts(),
            preemption_may_help=found.preemption_may_help,
            notes=found.notes,
            groups=[
                pb.NodeGroup(text=each.text, nodes=each.nodes, examples=each.examples)
                for each in answer.groups()
            ],
        )

    async def list_cards(self, request: pb.ListCardsRequest) -> pb.ListCardsResponse:
        """Return the cards, page by page."""
        self._service.check_ready()
        inventory = self._service.ledgers.inventory
        if request.node:
            ledger = inventory.get(request.node)
            return pb.ListCardsResponse(cards=card_messages(ledger) if ledger else ())
        size = min(request.page_size or PAGE, PAGE)
        names = sorted(name for name in inventory.names() if name > request.page_token)
        return pb.ListCardsResponse(
            cards=[
                card
                for name in islice(names, size)
                for card in card_messages(inventory.ledger(name))
            ],
            next_page_token=names[size - 1] if len(names) > size else "",
        )

    async def watch_ledger(self, request: pb.WatchLedgerRequest) -> AsyncIterator[pb.LedgerChange]:
        """Yield every node as it is, then each that changes, until the client cancels."""
        self._service.check_ready()
        ledgers, wanted = self._service.ledgers, frozenset(request.nodes)
        sent: dict[str, NodeLedger | str] = {}
        seen = -1
        while True:
            if seen != ledgers.revision:
                first, seen = seen < 0, ledgers.revision
                now: dict[str, NodeLedger | str] = {
                    ledger.node.name: ledger for ledger in ledgers.inventory
                }
                now |= ledgers.problems()
                for name in sorted({*now, *sent}):
                    if now.get(name) is sent.get(name) or (wanted and name not in wanted):
                        continue
                    match now.get(name):
                        case None:
                            yield pb.LedgerChange(node=name, gone=True)
                        case str(problem):
                            yield pb.LedgerChange(node=name, problem=problem)
                        case ledger:
                            cards = card_messages(ledger)
                            yield pb.LedgerChange(node=name, version=ledger.version, cards=cards)
                sent = now
                if first:
                    yield pb.LedgerChange(synced=True)
            await asyncio.sleep(POLL)

    async def _find(self, pod: pb.Pod) -> Pod:
        return await self._service.find(PodRef(pod.namespace or "default", pod.name, pod.uid))


def card_messages(ledger: NodeLedger) -> list[pb.Card]:
    """Return a node's cards with their sharers."""
    return [
        pb.Card(
            node=ledger.node.name,
            uuid=card.uuid,
            index=card.index,
            vendor=card.vendor,
            model=card.model,
            mode=card.mode.value,
            healthy=card.healthy,
            dialects=sorted(card.dialects),
            memory=card.memory,
            used_memory=use.memory,
            compute=card.compute,
            used_compute=use.compute,
            slots=card.slots,
            used_slots=use.slots,
            sharers=[
                pb.Sharer(
                    pod=allocation.pod,
                    uid=allocation.uid,
                    dialect=allocation.dialect,
                    memory=holder.memory,
                    compute=holder.compute,
                    state=allocation.state.value,
                    blocking=holder.blocked,
                )
                for holder in use.shares
                for allocation in (ledger.allocations[holder.uid],)
            ],
        )
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    ]


def grant_messages(allocated: Iterable[Grant]) -> list[pb.Grant]:
    """Return the grants of a pod."""
    return [
        pb.Grant(
            container=grant.container,
            card=grant.card,
            memory=grant.memory,
            compute=grant.compute,
            exclusive=grant.exclusive,
            mig_profile=grant.slice.profile if grant.slice else "",
            mig_start=grant.slice.start if grant.slice else 0,
        )
        for grant in allocated
    ]
