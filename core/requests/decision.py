"""The answer to a request: a placement, or many nodes and few reasons that differ."""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from core.requests.grant import Placement
from core.requests.reason import Reason


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
