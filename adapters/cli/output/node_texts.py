"""One text for each of many nodes, of which few texts differ."""

from array import array
from collections.abc import ItemsView, Iterator, Mapping, Sequence


class NodeTexts(Mapping[str, str]):
    """Texts of nodes, by the node's name.

    Attributes:
        names: of the nodes, in order.
        ids: for each of the names the position of its text in ``texts``.
        texts: every text once.
    """

    def __init__(
        self, names: Sequence[str] = (), ids: "array[int] | None" = None, texts: Sequence[str] = ()
    ) -> None:
        self.names = names
        self.ids = array("i") if ids is None else ids
        self.texts = texts
        self._text_of: dict[str, str] | None = None

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "NodeTexts":
        """Return texts of nodes in which equal texts are kept once."""
        known: dict[str, int] = {}
        ids = [known.setdefault(text, len(known)) for text in texts.values()]
        return cls(tuple(texts), array("i", ids), tuple(known))

    def followed_by(self, other: "NodeTexts") -> "NodeTexts":
        """Return these texts, followed by those of other nodes."""
        if not other.names:
            return self
        ids = array("i", (number + len(self.texts) for number in other.ids))
        return NodeTexts((*self.names, *other.names), self.ids + ids, (*self.texts, *other.texts))

    def __getitem__(self, name: str) -> str:
        if self._text_of is None:
            self._text_of = dict(self.items())
        return self._text_of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def items(self) -> ItemsView[str, str]:
        """Each name with its text."""
        return dict(zip(self.names, map(self.texts.__getitem__, self.ids), strict=True)).items()
