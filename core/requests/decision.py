"""The answer to a request: a placement, or many nodes and few reasons that differ.

A node of eight cards has up to eight causes, and hundreds of nodes have hundreds of texts. A person
wants to know what is missing, and on how many nodes: each node counts once, by its nearest cause.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.hardware.quantity import GIB, MIB, format_bytes, format_gib
from core.requests.grant import Placement
from core.requests.reason import Cause, Reason


class NodeReasons(Mapping[str, Reason]):
    """Why a request does not fit nodes, by the node's name.

    Attributes:
        names: of the nodes, in order.
        ids: for each of the names the position of its reason in ``distinct``.
        distinct: every reason once, without the name of a node.
    """

    def __init__(self, names: Sequence[str], ids: "array[int]", distinct: Sequence[Reason]) -> None:
        self.names = names
        self.ids = ids
        self.distinct = distinct
        self._id_of: dict[str, int] | None = None

    @classmethod
    def of(cls, reasons: Mapping[str, Reason]) -> "NodeReasons":
        """Return reasons by node in which equal reasons are kept once."""
        known: dict[Reason, int] = {}
        ids = [known.setdefault(replace(each, node=""), len(known)) for each in reasons.values()]
        return cls(tuple(reasons), array("i", ids), tuple(known))

    def __getitem__(self, name: str) -> Reason:
        if self._id_of is None:
            self._id_of = dict(zip(self.names, self.ids, strict=True))
        return replace(self.distinct[self._id_of[name]], node=name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def counted(self) -> list[tuple[Reason, int]]:
        """Return each of ``distinct`` with the number of its nodes, in that order."""
        nodes = Counter(self.ids)
        return [(reason, nodes[number]) for number, reason in enumerate(self.distinct)]

    def detailed(self, cause: Cause, why: Callable[[str], str]) -> "NodeReasons":
        """Return these reasons, those of a cause with what ``why`` says of the node; or nothing."""
        numbers = {at for at, each in enumerate(self.distinct) if each.cause is cause}
        ids, distinct, known = array("i", self.ids), [*self.distinct], dict[str, int]()
        for at, number in enumerate(self.ids) if numbers else ():
            detail = why(self.names[at]) if number in numbers else ""
            if detail:
                ids[at] = known.setdefault(detail, len(distinct))
                if ids[at] == len(distinct):
                    distinct.append(replace(self.distinct[number], detail=detail))
        return NodeReasons(self.names, ids, distinct) if known else self

    def without(self, name: str) -> "NodeReasons":
        """Return the reasons of the nodes but one that is among them."""
        at = self.names.index(name)
        ids = self.ids[:at] + self.ids[at + 1 :]
        if self.ids[at] not in ids:
            return NodeReasons.of({each: self[each] for each in self.names if each != name})
        return NodeReasons((*self.names[:at], *self.names[at + 1 :]), ids, self.distinct)

    def followed_by(self, other: "NodeReasons") -> "NodeReasons":
        """Return these reasons, followed by those of other nodes."""
        if not other.names:
            return self
        if not self.names:
            return other
        ids = array("i", (number + len(self.distinct) for number in other.ids))
        distinct = (*self.distinct, *other.distinct)
        return NodeReasons((*self.names, *other.names), self.ids + ids, distinct)


@dataclass(frozen=True, slots=True)
class Decision:
    """The best placement for a request, or why there is none.

    Attributes:
        placement: the best choice, or None.
        reasons: by node name, why the request does not fit it. Complete where it fits none; else
            only where the caller wants an explanation.
    """

    placement: Placement | None
    reasons: NodeReasons


SHOWN = 6
"""Groups of a summary, at most."""

LONGEST = 160
"""Characters of a group's text, at most; names of labels and taints have up to 317."""

_NEAREST_FIRST = (
    (
        Cause.KEPT, Cause.QUOTA, Cause.OTHER_REQUEST, Cause.SLOTS, Cause.MEMORY, Cause.COMPUTE,
        Cause.COMPUTE_FULL, Cause.NO_SLICE, Cause.TOGETHER, Cause.IN_USE, Cause.HELD_EXCLUSIVELY,
        Cause.GROUP, Cause.EXCLUSION, Cause.CLASS, Cause.QOS, Cause.NO_PARTITION, Cause.NO_SCOPE,
        Cause.HELD_BY_KUBELET, Cause.KUBELET, Cause.DEVICES, Cause.TOO_FEW_FIT,
    ),
    (Cause.BLOCKED, Cause.UNDESCRIBED, Cause.UNHEALTHY, Cause.NO_LAYOUT),
    (Cause.UNSCHEDULABLE, Cause.TAINT, Cause.SELECTOR, Cause.AFFINITY),
    (
        Cause.TOO_FEW, Cause.TYPE, Cause.UUID, Cause.MODE, Cause.NO_PROFILE, Cause.ISOLATION,
        Cause.NO_DEVICES,
    ),
    (Cause.VENDOR, Cause.DIALECT, Cause.NO_DIALECT, Cause.NO_CARDS),
)  # fmt: skip
"""Causes that end with other pods; that end with a repair; of the node's object; of its hardware;
of nodes that are for something else. One that no list has ends with other pods."""

_LISTED = {cause: rank for rank, causes in enumerate(_NEAREST_FIRST) for cause in causes}

_RANK = {cause: _LISTED.get(cause, 0) for cause in (*_LISTED, *Cause)}

_ORDER = {cause: place for place, cause in enumerate(sorted(_RANK, key=_RANK.__getitem__))}


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Nodes that a request does not fit for one cause.

    Attributes:
        cause: the nearest one of each of the nodes.
        text: the cause in words; with a range where the missing amounts differ.
        members: positions of their reasons among those that were grouped.
    """

    cause: Cause
    nodes: int
    text: str
    members: tuple[int, ...]

    @property
    def counted(self) -> str:
        """The text behind the number of nodes, such as ``2 nodes: no cards``."""
        return f"{self.nodes} {'node' if self.nodes == 1 else 'nodes'}: {self.text}"


def grouped(reasons: Iterable[tuple[Reason, int]]) -> tuple[CauseGroup, ...]:
    """Return the groups of some reasons, nearest first; of equally near ones the largest first.

    Args:
        reasons: each with the number of its nodes, 1 or more.
    """
    found: dict[Cause, _Members] = {}
    for position, (reason, nodes) in enumerate(reasons):
        cause, short = reason.cause, 0
        if cause is None:
            cause, short = nearest(reason)
        members = found.get(cause)
        if members is None:
            members = found[cause] = _Members(reason, short, short)
        elif members.read_alike and not _read_alike(members.first, reason):
            members.read_alike = False
        members.nodes += nodes
        members.positions.append(position)
        members.reasons.append((reason, nodes))
        if short < members.least:
            members.least = short
        elif short > members.most:
            members.most = short
    groups = (
        CauseGroup(cause, members.nodes, members.text(cause), tuple(members.positions))
        for cause, members in found.items()
    )
    return tuple(sorted(groups, key=lambda each: (_RANK[each.cause], -each.nodes, each.text)))


def nearest(reason: Reason) -> tuple[Cause, int]:
    """Return the cause that is nearest to a fit, and how much is missing in its unit."""
    if reason.cause is not None or not reason.counts:
        return reason.cause or Cause.TOO_FEW_FIT, 0
    first = reason.counts[0]
    if len(reason.counts) > 1:
        first = min(reason.counts, key=lambda each: (_ORDER[each.cause], each.short))
    return first.cause, first.short


def nearness(reason: Reason) -> tuple[int, int]:
    """Sorts the reasons of nodes that are nearest to a fit first."""
    cause, short = nearest(reason)
    return _ORDER[cause], short


def group_summary(groups: Sequence[CauseGroup]) -> str:
    """Return one line over nodes of which none fits: ``SHOWN`` groups, and how many are left."""
    total = sum(group.nodes for group in groups)
    if not total:
        return "no node to choose from"
    parts = [group.counted for group in groups[:SHOWN]]
    left = sum(group.nodes for group in groups[SHOWN:])
    if left:
        parts.append(f"{left} {'node' if left == 1 else 'nodes'}: other causes")
    return f"0 of {total} nodes fit: {'; '.join(parts)}"


@dataclass(slots=True)
class _Members:
    """The reasons of one cause.

    Attributes:
        first: one of them.
        least, most: what is missing, in the unit of the cause.
        read_alike: all have the text of the first.
    """

    first: Reason
    least: int
    most: int
    read_alike: bool = True
    nodes: int = 0
    positions: list[int] = field(default_factory=list[int])
    reasons: list[tuple[Reason, int]] = field(default_factory=list[tuple[Reason, int]])

    def text(self, cause: Cause) -> str:
        """Return the one text that all have, else what they have in common, with ranges."""
        if self.read_alike and len(text := self.first.text()) <= LONGEST:
            return text
        least, most = self.least, self.most
        match cause:
            case Cause.MEMORY:
                return f"memory {_bytes_range(least, most)} short"
            case Cause.COMPUTE:
                return f"compute {_range(least, most)}% short"
            case Cause.TOO_FEW:
                return f"{self._asked()} cards asked for one container, node has {self._has()}"
            case Cause.DEVICES:
                return (
                    f"{self._asked()} devices of the plugin requested, node has {self._has()} free"
                )
            case _ if any(
                reason.detail or any(count.detail for count in reason.counts)
                for reason, _ in self.reasons
            ):
                texts = Counter[str]()
                for reason, nodes in self.reasons:
                    texts[reason.text()] += nodes
                del texts[str(cause.value)]  # says no more
                text = f"{cause.value}, such as: {max(texts, key=lambda each: (texts[each], each))}"
                return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
            case _:
                return str(cause.value)

    def _asked(self) -> str:
        asked = [reason.asked for reason, _ in self.reasons]
        return _range(min(asked), max(asked))

    def _has(self) -> str:
        has = [reason.cards for reason, _ in self.reasons]
        return _range(min(has), max(has))


def _read_alike(left: Reason, right: Reason) -> bool:
    """Return whether two reasons of one cause have the same text."""
    if left.detail != right.detail or left.counts != right.counts:
        return False
    if left.counts or left.cause is Cause.TOO_FEW:
        return (left.cards, left.asked) == (right.cards, right.asked)
    return True


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def _bytes_range(least: int, most: int) -> str:
    """Return two amounts of bytes as one range: ``16.7 to 82 GiB``, ``512 MiB to 82 GiB``."""
    low, high = format_bytes(least), format_bytes(most)
    if low == high:
        return low
    if least >= GIB:
        low, high = (f"{format_gib(each).removesuffix('.0')} GiB" for each in (least, most))
        if low == high:
            low, high = (f"{-(-each // MIB)} MiB" for each in (least, most))
    elif most >= GIB:
        high = f"{format_gib(most).removesuffix('.0')} GiB"
    unit = high[-4:]
    return f"{low.removesuffix(unit)} to {high}"


def main_cause(*reasons: tuple[Reason, int]) -> str:
    """Return the most frequent cause, in one word for a metric.

    Args:
        reasons: each with the number of its nodes.
    """
    causes: Counter[Cause | None] = Counter()
    for reason, nodes in reasons:
        first = reason.counts[0].cause if reason.counts else None
        causes[reason.cause or first] += nodes
    cause = causes.most_common(1)[0][0] if causes else None
    return cause.name.lower() if cause else "no_node"
