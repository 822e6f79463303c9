"""The part of a report that is shown: of a large cluster few people want all."""

from collections.abc import Iterable
from dataclasses import dataclass

from adapters.cli.output.report import NOT_PLACED, PodLine, PodResult

REFUSED = "refused"
"""Pods that request a share and have none; the other words are those of ``PodResult``."""


@dataclass(frozen=True, slots=True)
class ReportPart:
    """A part.

    Attributes:
        results: of the pods that are shown.
        cards: whether cards are shown.
    """

    results: frozenset[PodResult] = frozenset(PodResult)
    cards: bool = True

    def shows(self, pod: PodLine) -> bool:
        """Whether a pod is shown."""
        return pod.result in self.results


EVERYTHING = ReportPart()
SUMMARY = ReportPart(frozenset(), cards=False)


def of_results(words: Iterable[str], *, cards: bool) -> ReportPart:
    """The pods of some results; without any, of all."""
    results = [NOT_PLACED if word == REFUSED else {PodResult(word)} for word in words]
    return ReportPart(frozenset().union(*results) if results else EVERYTHING.results, cards)
