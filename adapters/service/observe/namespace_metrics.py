"""What namespaces have of all cards, by dialect and model."""

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.card_lines import escaped
from adapters.service.observe.exposition import FamilyText
from core.hardware.quantity import FULL
from core.ledger.meter import NOTHING, Amounts, Consumer
from core.ledger.node_ledger import NodeLedger, consumption

_FAMILIES = (
    ("dragoman_namespace_shares", "Shares of cards: one for each pod on each card."),
    ("dragoman_namespace_memory_granted_bytes", "Allocated memory of cards."),
    ("dragoman_namespace_compute_granted_cards", "Allocated compute, in whole cards."),
)


class NamespaceMetrics:
    """Sums over all nodes; a node is summed again only when its ledger has changed."""

    def __init__(self, book: LedgerCache) -> None:
        self._book = book
        self._current: dict[str, tuple[NodeLedger, tuple[tuple[Consumer, Amounts], ...]]] = {}

    def families(self) -> list[FamilyText]:
        """Return the lines of all namespaces that have a share now."""
        current: dict[str, tuple[NodeLedger, tuple[tuple[Consumer, Amounts], ...]]] = {}
        sums: dict[Consumer, Amounts] = {}
        for ledger in self._book.inventory:
            earlier = self._current.get(ledger.node.name)
            if earlier is None or earlier[0] is not ledger:
                earlier = (ledger, tuple(consumption(ledger.without_holds()).items()))
            current[ledger.node.name] = earlier
            for consumer, amounts in earlier[1]:
                sums[consumer] = sums.get(consumer, NOTHING).plus(amounts)
        self._current = current
        lines: list[list[str]] = [[] for _ in _FAMILIES]
        for consumer, amounts in sorted(sums.items()):
            label = labels(consumer)
            values = (amounts.shares, amounts.memory, amounts.compute / FULL)
            for (name, _), family, value in zip(_FAMILIES, lines, values, strict=True):
                family.append(f"{name}{label} {value}\n")
        return [
            FamilyText(
                f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode(), ["".join(family).encode()]
            )
            for (name, text), family in zip(_FAMILIES, lines, strict=True)
        ]


def labels(consumer: Consumer) -> str:
    """The labels of a consumer, in braces."""
    fields = consumer._asdict().items()
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in fields) + "}"
