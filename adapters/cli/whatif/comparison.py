"""Each pod that waits, moves or arrives, in the cluster as it is and in the changed one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from adapters.cli.output.report import NodeTexts, PodLine, PodResult
from adapters.cli.output.rows import Column, Row
from adapters.cli.view.listing import Listing

_COLUMNS = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("DIALECT"),
    Column("NOW"),
    Column("THEN"),
    Column("REASON"),
)

_KEYS = ("namespace", "pod", "dialect", "now", "then", "placed", "reason", "gang")

_WITHOUT = (PodResult.REJECTED, PodResult.INVALID)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs.

    Attributes:
        now: the pending pods on the cluster as it is.
        then: all pods that have to be placed on the changed one.
        moved: ``namespace/name`` of pods whose node is removed.
    """

    now: tuple[PodLine, ...]
    then: tuple[PodLine, ...]
    moved: frozenset[str]

    @classmethod
    def of(
        cls, now: Iterable[PodLine], then: Iterable[PodLine], moved: frozenset[str]
    ) -> "Comparison":
        """Compare two runs, without what they say of each node: 20 KB for a pod that fits none."""

        def short(lines: Iterable[PodLine]) -> tuple[PodLine, ...]:
            return tuple(replace(line, reasons=NodeTexts(), groups=()) for line in lines)

        return cls(short(now), short(then), moved)

    def listing(self) -> Listing:
        """Return one row for each pod that has to be placed in the changed cluster."""
        before = {line.full_name: line for line in self.now}
        rows = [
            self._row(before.get(line.full_name), line)
            for line in self.then
            if line.result not in (PodResult.BOUND, PodResult.SKIPPED)
        ]
        return Listing("WhatIfList", _COLUMNS, tuple(rows), _KEYS)

    def summary(self) -> str:
        """Say how many pods are placed, now and then."""
        return f"now: {_placed(self.now)}; then: {_placed(self.then)}"

    def _row(self, before: PodLine | None, after: PodLine) -> Row:
        now = "new" if before is None else _where(before)
        then = _where(after)
        reason = after.summary if after.result in _WITHOUT else ""
        if after.full_name in self.moved and not reason:
            reason = "moves"
        return Row(
            f"pod/{after.name}",
            (after.namespace, after.name, after.dialect or "", now, then, reason),
            {
                "namespace": after.namespace, "pod": after.name, "dialect": after.dialect,
                "now": now, "then": then, "placed": after.node is not None, "reason": reason,
                "gang": None if after.gang is None else after.gang.name,
            },
        )  # fmt: skip


def _where(line: PodLine) -> str:
    if line.result is PodResult.INVALID:
        return "invalid"
    return line.node or "does not fit"


def _placed(lines: tuple[PodLine, ...]) -> str:
    asked = [line for line in lines if line.result not in (PodResult.BOUND, PodResult.SKIPPED)]
    placed = sum(line.result is PodResult.PLACED for line in asked)
    return f"{placed} of {len(asked)} waiting pods placed"
