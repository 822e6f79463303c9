"""Parameters of the dashboard's questions; an invalid one is an error that names it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.hardware.quantity import MIB

MAX_ROWS = 200
"""Rows of one answer."""

ROWS = 25
"""Rows of one answer where the question does not say."""

MAX_TEXT = 253
"""Characters of a searched text; no name of Kubernetes is longer."""

MAX_DIGITS = 9

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
        """The rows of the window."""
        return rows[self.offset : self.offset + self.limit]


def number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 0 to ``most``.

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
    """One of some words; the first where the question does not say.

    Raises:
        QueryError: it is another word.
    """
    text = query.get(name) or valid[0]
    if text not in valid:
        raise QueryError(f"{name}: {text[:40]!r}: must be one of {', '.join(valid)}")
    return text


def words(query: Mapping[str, str], name: str = "q") -> tuple[str, ...]:
    """The searched words in lower case.

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


HEALTH = ("any", "problems", "healthy")
"""Any node; nodes with a problem or a card that is not healthy; the others."""

SORTS = ("problems", "name", "free", "granted", "compute", "pods")
"""Problems first, then by name; the amounts begin with the largest."""

ORDERS = ("normal", "reverse")
