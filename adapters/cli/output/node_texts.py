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
