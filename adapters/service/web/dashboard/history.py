"""What the dashboard reads of the decision log."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from adapters.service.web.dashboard.query import Window, choice, words

OUTCOMES = ("any", "no", "yes")

_NO = frozenset({"refused", "invalid", "error"})
_SEARCHED = ("pod", "node", "dialect", "verb", "text", "consumers")

Entry = Mapping[str, object]


class DecisionHistory(Protocol):
    """The decision log, as ``StructuredDecisionLog`` implements it."""

    @property
    def recorded(self) -> int:
        """Decisions since the process began."""
        ...

    def history(self) -> Sequence[Entry]:
        """All decisions that are kept, newest first."""
        ...

    def refusal(self, uid: str) -> Entry | None:
        """The latest decision about a pod if it was a no."""
        ...


def decisions(history: DecisionHistory, query: Mapping[str, str]) -> dict[str, object]:
    """The decisions that a question asks for: ``q``, ``pod``, ``node`` and ``outcome``.

    Raises:
        QueryError: a parameter is invalid.
    """
    outcome, window = choice(query, "outcome", OUTCOMES), Window.of(query)
    found = [
        each
        for each in _searched(history.history(), words(query))
        if outcome == "any" or (each["outcome"] in _NO) == (outcome == "no")
        if "pod" not in query or _is_about(each, query["pod"])
        if query.get("node", each["node"]) == each["node"]
    ]
    return {"total": len(found), "rows": window.part(found), "kept": len(history.history())}


def of_pod(history: DecisionHistory, pod: str) -> list[Entry]:
    """The decisions about a pod or one of its claims, newest first."""
    return [each for each in history.history() if _is_about(each, pod)]


def of_node(history: DecisionHistory, node: str) -> list[Entry]:
    """The decisions that chose or evaluated one node, newest first."""
    return [each for each in history.history() if each["node"] == node]


def _is_about(entry: Entry, pod: str) -> bool:
    consumers = entry.get("consumers")
    return entry["pod"] == pod or (isinstance(consumers, tuple) and pod in consumers)


def _searched(entries: Sequence[Entry], sought: Sequence[str]) -> Iterator[Entry]:
    for each in entries:
        text = "\n".join(str(each.get(name, "")) for name in _SEARCHED).lower()
        if all(word in text for word in sought):
            yield each
