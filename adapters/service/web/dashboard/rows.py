"""Rows of the dashboard: a node as it is listed, searched and sorted, and its pods.

Memory is in MiB, compute in percent of one card.
"""

from asyncio import sleep
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.web.dashboard.query import NodeQuery
from core.feasibility.columns import EXCLUSIVE, OFFLINE, ONLINE, free_capacity
from core.hardware.card import Card, Mode
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage

View = dict[str, object]

SHOWN_PROBLEMS = 3
"""Problems of a node that a list has; the node's own view has all."""

BUILT = 50
"""Rows that are built before the event loop gets its turn."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node, with what a question compares.

    Attributes:
        name: of the node.
        ledger: None where it cannot be read.
        problems: as sentences.
        unhealthy: cards that are not healthy.
        memory: bytes of all cards.
        granted: allocated bytes.
        compute: allocated percent, of all cards together.
        largest: bytes of the largest share of one card that is free.
        models, dialects, namespaces: of its cards and pods.
        pods: ``namespace/name`` of the pods with an allocation.
        text: all names in lower case, to be searched.
    """

    name: str
    ledger: NodeLedger | None
    problems: tuple[str, ...]
    unhealthy: int
    memory: int
    granted: int
    compute: int
    largest: int
    models: tuple[str, ...]
    dialects: tuple[str, ...]
    namespaces: frozenset[str]
    pods: frozenset[str]
    text: str

    @classmethod
    def of(cls, ledger: NodeLedger) -> "NodeRow":
        """Return the row of a ledger."""
        cards, allocations = ledger.node.cards, ledger.allocations.values()
        pods = frozenset(allocation.pod for allocation in allocations)
        models = tuple(dict.fromkeys(card.model for card in cards))
        dialects = {name for card in cards for name in card.dialects}
        names = (ledger.node.name, *models, *(card.uuid for card in cards), *sorted(pods))
        return cls(
            ledger.node.name,
            ledger,
            tuple(f"{p.pod}: {p.text}" if p.pod else p.text for p in ledger.problems()),
            sum(not card.healthy for card in cards),
            sum(card.memory for card in cards),
            sum(use.memory for use in ledger.usages),
            sum(use.compute for use in ledger.usages),
            max(map(free_share, cards, ledger.usages), default=0),
            models,
            tuple(sorted(dialects | {each.dialect for each in allocations})),
            frozenset(pod.partition("/")[0] for pod in pods),
            pods,
            "\n".join(names).lower(),
        )

    @classmethod
    def unreadable(cls, name: str, problem: str) -> "NodeRow":
        """Return the row of a node whose ledger cannot be read."""
        nothing = frozenset[str]()
        return cls(name, None, (problem,), 0, 0, 0, 0, 0, (), (), nothing, nothing, name.lower())

    @property
    def has_problem(self) -> bool:
        """Whether a person should look at the node."""
        return bool(self.problems or self.unhealthy)

    def matches(self, query: NodeQuery) -> bool:
        """Return whether the node is one that a question asks for."""
        return (
            (query.health == "any" or self.has_problem == (query.health == "problems"))
            and (not query.node or query.node == self.name)
            and (not query.model or query.model in self.models)
            and (not query.namespace or query.namespace in self.namespaces)
            and (not query.dialect or query.dialect in self.dialects)
            and self.largest >= query.free
            and all(word in self.text for word in query.words)
        )

    def key(self, sort: str) -> tuple[int, str]:
        """Return the key by which a list is sorted, for one of ``query.SORTS``."""
        amount = {
            "problems": int(self.has_problem),
            "free": self.largest,
            "granted": self.granted,
            "compute": self.compute,
            "pods": len(self.pods),
        }.get(sort, 0)
        return -amount, self.name

    def view(self, problems: int = SHOWN_PROBLEMS) -> View:
        """Return the node in JSON, with its cards; memory in MiB."""
        return {
            "name": self.name,
            "readable": self.ledger is not None,
            "models": self.models,
            "dialects": self.dialects,
            "unhealthy": self.unhealthy,
            "pods": len(self.pods),
            "memoryMiB": self.memory // MIB,
            "grantedMiB": self.granted // MIB,
            "compute": self.compute,
            "largestMiB": self.largest // MIB,
            "problemCount": len(self.problems),
            "problems": self.problems[:problems],
            "cards": [] if self.ledger is None else card_views(self.ledger),
        }


def free_share(card: Card, use: CardUsage) -> int:
    """Return bytes of the largest share of a card that a normal task can still get."""
    memory, compute, tags = free_capacity(card, use)
    return memory if memory > 0 < compute and not tags & (ONLINE | OFFLINE | EXCLUSIVE) else 0


def card_views(ledger: NodeLedger) -> list[View]:
    """Return the cards of a node in JSON, with their shares; memory in MiB."""
    return [
        {
            "index": card.index,
            "uuid": card.uuid,
            "model": card.model,
            "mode": card.mode.value,
            "healthy": card.healthy,
            "memoryMiB": card.memory // MIB,
            "grantedMiB": use.memory // MIB,
            "freeMiB": free_share(card, use) // MIB,
            "compute": use.compute,
            "computeTotal": card.compute,
            "slots": card.slots,
            "usedSlots": use.slots,
            "over": (use.memory > card.memory and card.mode is not Mode.MIG)
            or use.compute > card.compute
            or use.slots > card.slots,
            "shares": [
                {
                    "pod": allocation.pod,
                    "dialect": allocation.dialect,
                    "memoryMiB": share.memory // MIB,
                    "compute": share.compute,
                    "reserved": allocation.state.value == "held",
                    "blocked": share.blocked,
                    "exclusive": share.exclusive,
                }
                for share in use.shares
                for allocation in (ledger.allocations[share.uid],)
            ],
        }
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    ]


def pod_rows(ledger: NodeLedger) -> Iterator[View]:
    """Yield the pods with an allocation on a node, each with its grants."""
    indexes = {card.uuid: card.index for card in ledger.node.cards}
    for allocation in ledger.allocations.values():
        yield {
            "pod": allocation.pod,
            "uid": allocation.uid,
            "node": allocation.node,
            "dialect": allocation.dialect,
            "priority": allocation.priority,
            "reserved": allocation.state.value == "held",
            "unread": allocation.unread,
            "releaseBy": allocation.release_by,
            "memoryMiB": sum(grant.memory for grant in allocation.grants) // MIB,
            "compute": sum(grant.compute for grant in allocation.grants),
            "grants": [
                {
                    "container": grant.container,
                    "card": grant.card,
                    "index": indexes.get(grant.card),
                    "memoryMiB": grant.memory // MIB,
                    "compute": grant.compute,
                    "exclusive": grant.exclusive,
                    "profile": None if grant.slice is None else grant.slice.profile,
                }
                for grant in allocation.grants
            ],
            "blocked": sorted(allocation.blocked),
        }


class FleetIndex:
    """The rows of all nodes, each built once for a ledger and kept until the ledger changes.

    It costs memory only once someone looks at the dashboard.
    """

    def __init__(self, ledgers: LedgerCache) -> None:
        self._ledgers = ledgers
        self._rows: dict[str, NodeRow] = {}
        self._unreadable: list[NodeRow] = []
        self._version: Hashable = None

    def version(self) -> Hashable:
        """Return a version that differs when a row may differ."""
        return self._ledgers.inventory.membership_version, self._ledgers.revision

    async def rows(self) -> Sequence[NodeRow]:
        """Return the rows of all nodes as they are now; other calls run in between."""
        version = self.version()
        if version != self._version:
            current: dict[str, NodeRow] = {}
            built = 0
            for ledger in [*self._ledgers.inventory]:
                row = self._rows.get(ledger.node.name)
                if row is None or row.ledger is not ledger:
                    row = NodeRow.of(ledger)
                    built += 1
                    if built % BUILT == 0:
                        await sleep(0)
                current[row.name] = row
            problems = self._ledgers.problems().items()
            self._rows = current
            self._unreadable = [NodeRow.unreadable(*each) for each in problems]
            self._version = version
        return [*self._rows.values(), *self._unreadable]
