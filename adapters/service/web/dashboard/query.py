"""The parameters of a question, and the decisions that it asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from adapters.service.observe.decision_log import StructuredDecisionLog
from core.hardware.quantity import MIB

MAX_ROWS = 200
"""Rows of one answer."""

ROWS = 25
"""Rows of one answer where the question does not say."""

MAX_TEXT = 253
"""Characters of a searched text; no name of Kubernetes is longer."""

MAX_DIGITS = 9

HEALTH = ("any", "problems", "healthy")
"""Any node; nodes with a problem or a card that is not healthy; the others."""

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
    """The part of the rows that an answer has.

    Attributes:
        offset: rows before it.
        limit: rows at most.
    """

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


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """Which nodes, in which order.

    Attributes:
        words: all of them occur in the node's name, or in the uuids, models or pods of its cards.
        node, model, namespace, dialect: exact; empty for any.
        health: one of ``HEALTH``.
        free: bytes that the largest free share of the node has at least.
        sort: one of ``SORTS``.
        reverse: the other direction.
        window: the part of the rows.
    """

    words: tuple[str, ...]
    node: str
    model: str
    namespace: str
    dialect: str
    health: str
    free: int
    sort: str
    reverse: bool
    window: Window

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "NodeQuery":
        """Read the parameters.

        Raises:
            QueryError: one is invalid.
        """
        return cls(
            words(query),
            query.get("node", ""),
            query.get("model", ""),
            query.get("namespace", ""),
            query.get("dialect", ""),
            choice(query, "health", HEALTH),
            number(query, "freeMiB", 0, 10**MAX_DIGITS) * MIB,
            choice(query, "sort", SORTS),
            choice(query, "order", ORDERS) == ORDERS[1],
            Window.of(query),
        )


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
        if "pod" not in query or _is_about(each, query["pod"])
        if query.get("node", each["node"]) == each["node"]
    ]
    return {"total": len(found), "rows": window.part(found), "kept": len(history.history())}


def of_pod(history: StructuredDecisionLog, pod: str) -> list[Entry]:
    """Return the decisions about a pod or one of its claims, newest first."""
    return [each for each in history.history() if _is_about(each, pod)]


def of_node(history: StructuredDecisionLog, node: str) -> list[Entry]:
    """Return the decisions that chose or evaluated one node, newest first."""
    return [each for each in history.history() if each["node"] == node]


def _is_about(entry: Entry, pod: str) -> bool:
    consumers = entry.get("consumers")
    return entry["pod"] == pod or (isinstance(consumers, tuple) and pod in consumers)
