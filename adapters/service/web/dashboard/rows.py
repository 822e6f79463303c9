"""Rows of the dashboard: a node as it is listed, searched and sorted, and its pods.

Memory is in MiB, compute in percent of one card.
"""

import asyncio
from asyncio import sleep
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TypeVar

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.pod_requests import dialect_name
from adapters.answer.device_plugins import PluginDevices
from adapters.answer.judge import DEVICES
from adapters.dialects.device_plugins import PluginResource
from adapters.service.decide.advice.explain import ServiceFacts
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.decision_log import StructuredDecisionLog
from adapters.wire.kube import full_name
from core.feasibility.columns import EXCLUSIVE, OFFLINE, ONLINE, free_capacity
from core.feasibility.suitability import is_not_ours
from core.hardware.card import Card, Mode
from core.hardware.quantity import GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage
from core.requests.grant import KUBELET, Allocation

MAX_ROWS = 200
"""Rows of one answer."""

ROWS = 25
"""Rows of one answer where the question does not say."""

MAX_TEXT = 253
"""Characters of a searched text; no name of Kubernetes is longer."""

MAX_DIGITS = 9

HEALTH = ("any", "problems", "healthy", "full", "idle")
"""Any node; nodes with a problem or a card that is not healthy; the others; nodes with a card of
which no share is free; nodes with a card that no pod uses."""

SORTS = ("problems", "name", "free", "granted", "compute", "pods")
"""Problems first, then by name; the amounts begin with the largest."""

ORDERS = ("normal", "reverse")
OUTCOMES = ("any", "no", "yes")

_NO = frozenset({"refused", "invalid", "error"})
_SEARCHED = ("pod", "node", "dialect", "verb", "text", "consumers")

Entry = Mapping[str, object]
"""A decision, as the log keeps it."""

T = TypeVar("T")


class QueryError(ValueError):
    """A parameter is invalid; the text names it, its value, and what is valid."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of the rows that an answer has."""

    offset: int
    limit: int

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Window":
        """Read ``offset`` and ``limit``.

        Raises:
            QueryError: one of them is no number, or too large.
        """
        return cls(
            number(query, "offset", 0, 10**MAX_DIGITS), number(query, "limit", ROWS, MAX_ROWS)
        )

    def part(self, rows: Sequence[T]) -> Sequence[T]:
        """Return the rows of the window."""
        return rows[self.offset : self.offset + self.limit]


def number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Return a whole number from 0 to ``most``.

    Raises:
        QueryError: it is none.
    """
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS and int(text) <= most):
        raise QueryError(f"{name}: {text[:40]!r}: must be a whole number from 0 to {most}")
    return int(text)


def choice(query: Mapping[str, str], name: str, valid: Sequence[str]) -> str:
    """Return one of some words; the first where the question does not say.

    Raises:
        QueryError: it is another word.
    """
    text = query.get(name) or valid[0]
    if text not in valid:
        raise QueryError(f"{name}: {text[:40]!r}: must be one of {', '.join(valid)}")
    return text


def words(query: Mapping[str, str], name: str = "q") -> tuple[str, ...]:
    """Return the searched words in lower case.

    Raises:
        QueryError: the text is too long.
    """
    text = query.get(name, "")
    if len(text) > MAX_TEXT:
        raise QueryError(f"{name}: {len(text)} characters: must be {MAX_TEXT} or fewer")
    return tuple(text.lower().split())


def decisions(history: StructuredDecisionLog, query: Mapping[str, str]) -> dict[str, object]:
    """Return the decisions that a question asks for: ``q``, ``pod``, ``node`` and ``outcome``.

    Raises:
        QueryError: a parameter is invalid.
    """
    outcome, window, sought = choice(query, "outcome", OUTCOMES), Window.of(query), words(query)
    found = [
        each
        for each in history.history()
        for text in ("\n".join(str(each.get(name, "")) for name in _SEARCHED).lower(),)
        if all(word in text for word in sought)
        if outcome == "any" or (each["outcome"] in _NO) == (outcome == "no")
        if "pod" not in query or is_about(each, query["pod"])
        if query.get("node", each["node"]) == each["node"]
    ]
    return {"total": len(found), "rows": window.part(found), "kept": len(history.history())}


def of_pod(history: StructuredDecisionLog, pod: str) -> list[Entry]:
    """Return the decisions about a pod or one of its claims, newest first."""
    return [each for each in history.history() if is_about(each, pod)]


def of_node(history: StructuredDecisionLog, node: str) -> list[Entry]:
    """Return the decisions that chose or evaluated one node, newest first."""
    return [each for each in history.history() if each["node"] == node]


def is_about(entry: Entry, pod: str) -> bool:
    """Return whether a decision or a row is about a pod or one of its claims."""
    consumers = entry.get("consumers")
    return entry["pod"] == pod or (isinstance(consumers, tuple) and pod in consumers)


View = dict[str, object]

SHOWN_PROBLEMS = 3
"""Problems of a node that a list has; the node's own view has all."""

BUILT = 25
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
        cells: two characters a card: ``LETTERS`` of its state, and tenths of it that are granted.
        free: how many cards have a largest free share of each of ``FREE_FROM``.
        granted_by: bytes by namespace.
        owners: by card, namespace and dialect of its largest share; empty where there is none.
        devices: what device plugins state on a node without cards of a ledger, in JSON.
        users: the pods with such devices, in JSON.
        count: cards, or such devices; 0 where nothing says how many there are.
        in_use: of such devices.
    """

    name: str
    ledger: NodeLedger | None
    problems: tuple[str, ...] = ()
    unhealthy: int = 0
    memory: int = 0
    granted: int = 0
    compute: int = 0
    largest: int = 0
    models: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    namespaces: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()
    text: str = ""
    cells: str = ""
    free: Mapping[int, int] = field(default_factory=dict)
    granted_by: Mapping[str, int] = field(default_factory=dict)
    owners: tuple[tuple[str, str], ...] = ()
    devices: tuple[View, ...] = ()
    users: tuple[View, ...] = ()
    count: int = 0
    in_use: int = 0

    @classmethod
    def of(cls, ledger: NodeLedger) -> "NodeRow":
        """Return the row of a ledger."""
        cards, allocations = ledger.node.cards, ledger.allocations.values()
        pods = frozenset(allocation.pod for allocation in allocations)
        models = tuple(dict.fromkeys(card.model for card in cards))
        unknown = [each for each in allocations if each.blocked and each.dialect == KUBELET]
        dialects = {name for card in cards for name in card.dialects}
        names = (ledger.node.name, *models, *(card.uuid for card in cards), *sorted(pods))
        return cls(
            ledger.node.name,
            ledger,
            (
                *(f"{p.pod}: {p.text}" if p.pod else p.text for p in ledger.problems()),
                *(f"{each.pod}: {each.unread}" for each in unknown),
            ),
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
            "".join(map(_cell, cards, ledger.usages)),
            Counter(
                bisect_right(FREE_FROM, free_share(*each)) - 1
                for each in zip(cards, ledger.usages, strict=True)
            ),
            _by_namespace(ledger),
            tuple(_owner(ledger, use) for use in ledger.usages),
            count=len(cards),
        )

    @classmethod
    def unreadable(cls, name: str, problem: str) -> "NodeRow":
        """Return the row of a node whose ledger cannot be read."""
        return cls(name, None, (problem,), text=name.lower(), cells="b9")

    @classmethod
    def served(cls, name: str, devices: PluginDevices, facts: ServiceFacts) -> "NodeRow":
        """Return the row of a node whose devices a plugin serves: no ledger counts them."""
        stated = tuple(devices.nodes[name].resources.values())
        users: tuple[View, ...] = tuple(
            {
                **_NO_GRANTS, "pod": full_name(each.pod), "uid": each.pod.metadata.uid,
                "node": name, "dialect": dialect_name(each.pod, facts.dialects) or "",
                "priority": each.pod.spec.priority or 0, "devices": dict(each.amounts),
            }
            for each in devices.users[name]
        )  # fmt: skip
        pods = frozenset(str(each["pod"]) for each in users)
        models = tuple(dict.fromkeys(each.product for each in stated if each.product))
        shown: tuple[View, ...] = tuple(
            {
                "resource": each.name, "product": each.product,
                "memoryMiB": None if each.memory is None else each.memory // MIB,
                "replicas": each.replicas, "sharing": each.sharing,
                "inUse": devices.in_use(name, each.name), "allocatable": each.allocatable,
                "unhealthy": each.capacity - each.allocatable,
            }
            for each in stated
        )  # fmt: skip
        names = (name, *models, *(each.name for each in stated), *sorted(pods))
        return cls(
            name,
            None,
            unhealthy=sum(each.capacity - each.allocatable for each in stated),
            models=models,
            namespaces=frozenset(pod.partition("/")[0] for pod in pods),
            pods=pods,
            text="\n".join(names).lower(),
            cells="".join(_device_cells(each, devices.in_use(name, each.name)) for each in stated),
            devices=shown,
            users=users,
            count=sum(each.capacity for each in stated),
            in_use=sum(min(devices.in_use(name, each.name), each.allocatable) for each in stated),
        )

    @property
    def resources(self) -> tuple[str, ...]:
        """What device plugins serve on the node, by the names of their resources."""
        return tuple(str(each["resource"]) for each in self.devices)

    @property
    def has_problem(self) -> bool:
        """Whether a person should look at the node."""
        return bool(self.problems or self.unhealthy)

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
            "readable": self.ledger is not None or bool(self.devices),
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
            "devices": self.devices,
            "users": self.users,
        }

    def dialect_of_pods(self, claims: ClaimCache) -> Iterator[tuple[str, str, str]]:
        """Yield the pods with cards or devices: name, dialect, and the pods of a claim."""
        for user in self.users:
            yield str(user["pod"]), str(user["dialect"]), ""
        if self.ledger is not None:
            for allocation in self.ledger.allocations.values():
                users = "\n".join(consumers(allocation, claims))
                yield allocation.pod, allocation.dialect, users

    def holders(self, claims: ClaimCache) -> Iterator[View]:
        """Yield the pods and claims with cards or devices of the node."""
        yield from self.users
        if self.ledger is not None:
            yield from pod_rows(self.ledger, claims)


def free_share(card: Card, use: CardUsage) -> int:
    """Return bytes of the largest share of a card that a normal task can still get."""
    memory, compute, tags = free_capacity(card, use)
    return memory if memory > 0 < compute and not tags & (ONLINE | OFFLINE | EXCLUSIVE) else 0


def state_of(card: Card, use: CardUsage) -> str:
    """Return what a person should know about a card, in a word."""
    if not card.healthy:
        return "unhealthy"
    if any(share.blocked for share in use.shares):
        return "blocked"
    if is_over(card, use):
        return "over"
    if not use.shares:
        return "idle"
    if any(share.exclusive for share in use.shares):
        return "exclusive"
    return "shared" if free_share(card, use) else "full"


def is_over(card: Card, use: CardUsage) -> bool:
    """Return whether more of a card is allocated than it has."""
    memory = use.memory > card.memory and card.mode is not Mode.MIG
    return memory or use.compute > card.compute or use.slots > card.slots


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
            "over": is_over(card, use),
            "state": state_of(card, use),
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


_NO_GRANTS: View = {
    "reserved": False, "unread": None, "releaseBy": None, "memoryMiB": 0, "compute": 0,
    "grants": (), "blocked": (), "consumers": (),
}  # fmt: skip


def consumers(allocation: Allocation, claims: ClaimCache) -> tuple[str, ...]:
    """Return the names of the pods for which a claim is reserved; none of a pod."""
    return tuple(sorted(map(str, claims.consumers(allocation.uid))))


def pod_rows(ledger: NodeLedger, claims: ClaimCache) -> Iterator[View]:
    """Yield the pods and claims with an allocation on a node, each with its grants."""
    indexes = {card.uuid: card.index for card in ledger.node.cards}
    for allocation in ledger.allocations.values():
        yield {
            "pod": allocation.pod,
            "uid": allocation.uid,
            "node": allocation.node,
            "dialect": allocation.dialect,
            "consumers": consumers(allocation, claims),
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
            "devices": {},
        }


FRESH = 3.0
"""Seconds for which the devices of plugins are shown again: they change without a revision, and
the page asks every five."""

LETTERS = {
    "idle": ".", "shared": "s", "full": "f", "exclusive": "x", "over": "o", "blocked": "b",
    "unhealthy": "u",
}  # fmt: skip
"""The states of a card in one letter; ``p`` is a device of a plugin that a pod has."""

FREE_FROM = tuple(gib * GIB for gib in (0, 1, 8, 16, 24, 40, 80))
"""Largest free shares by which cards are counted, each from these bytes on; the first is none."""

SQUARES = 64
"""Devices of one resource of a node that are drawn."""


def _cell(card: Card, use: CardUsage) -> str:
    """Return a card in two characters; a card that is not known to be free is full."""
    state = state_of(card, use)
    tenths = 9 if state == "blocked" else min(9, -(-9 * use.memory // max(1, card.memory)))
    return f"{LETTERS[state]}{tenths}"


def _owner(ledger: NodeLedger, use: CardUsage) -> tuple[str, str]:
    if not use.shares:
        return "", ""
    allocation = ledger.allocations[max(use.shares, key=lambda share: share.memory).uid]
    return allocation.pod_ref.namespace, allocation.dialect


def _device_cells(stated: PluginResource, in_use: int) -> str:
    """Return the devices of a plugin: in use, free and unhealthy ones."""
    used, healthy = min(in_use, stated.allocatable), stated.allocatable
    cells = ""
    for cell, count in ("p9", used), (".0", healthy - used), ("u0", stated.capacity - healthy):
        cells += cell * min(count, SQUARES - len(cells) // 2)
    return cells


def _by_namespace(ledger: NodeLedger) -> Mapping[str, int]:
    granted: Counter[str] = Counter()
    for allocation in ledger.allocations.values():
        granted[allocation.pod_ref.namespace] += sum(grant.memory for grant in allocation.grants)
    return granted


class FleetIndex:
    """The rows of all nodes, each built once for a ledger and kept until the ledger changes.

    A node without cards is none of them, unless a device plugin serves it. It costs memory only
    once someone looks at the dashboard.
    """

    def __init__(self, ledgers: LedgerCache, facts: ServiceFacts) -> None:
        self._ledgers = ledgers
        self.facts = facts
        self._rows: dict[str, NodeRow] = {}
        self._others: list[NodeRow] = []
        self._version: Hashable = None
        self._served: dict[str, NodeRow] = {}
        self._served_version = 0
        self._until = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def version(self) -> Hashable:
        """Return a version that differs when a row may differ."""
        if self._reading is None or (self._reading.done() and monotonic() >= self._until):
            self._until = monotonic() + FRESH
            self._reading = asyncio.create_task(self._read_devices())
        await asyncio.shield(self._reading)
        ledgers = self._ledgers
        return ledgers.inventory.membership_version, ledgers.revision, self._served_version

    async def _read_devices(self) -> None:
        devices, inventory = PluginDevices(), self._ledgers.inventory
        unreadable = self.facts.unreadable()
        for number, (name, node) in enumerate(self.facts.nodes().items(), start=1):
            ledger = inventory.get(name)
            if name not in unreadable and (ledger is None or is_not_ours(ledger)):
                devices.add(node, (), partial(self.facts.pods_on, name), is_undescribed=True)
            if number % DEVICES == 0:
                await sleep(0)
        served = {name: NodeRow.served(name, devices, self.facts) for name in devices.nodes}
        if served != self._served:
            self._served, self._served_version = served, self._served_version + 1

    async def rows(self) -> Sequence[NodeRow]:
        """Return the rows of all nodes as they are now; other calls run in between."""
        version = await self.version()
        if version != self._version:
            current: dict[str, NodeRow] = {}
            built = 0
            for ledger in [*self._ledgers.inventory]:
                name = ledger.node.name
                if name in self._served or (is_not_ours(ledger) and not ledger.allocations):
                    continue
                row = self._rows.get(name)
                if row is None or row.ledger is not ledger:
                    row = NodeRow.of(ledger)
                    built += 1
                    if built % BUILT == 0:
                        await sleep(0)
                current[name] = row
            problems = self._ledgers.problems().items()
            self._rows = current
            self._others = [
                *self._served.values(),
                *(NodeRow.unreadable(*each) for each in problems),
            ]
            self._version = version
        return [*self._rows.values(), *self._others]
