"""Why a request does not fit some nodes: many nodes, and few reasons that differ."""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

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

    def counts(self) -> Counter[str]:
        """How many nodes have each text."""
        counts: Counter[str] = Counter()
        for number, nodes in Counter(self.ids).items():
            counts[self.distinct[number].text()] += nodes
        return counts
