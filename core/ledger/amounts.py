"""Amounts of cards, and who has them."""

from dataclasses import dataclass
from typing import NamedTuple


class Consumer(NamedTuple):
    """Pods that are counted together.

    Attributes:
        namespace: of the pods.
        dialect: of their requests.
        model: of the cards.
    """

    namespace: str
    dialect: str
    model: str


@dataclass(frozen=True, slots=True)
class Amounts:
    """Sums of shares, or of shares multiplied by milliseconds.

    Attributes:
        shares: one for each pod on each card.
        memory: bytes.
        compute: percent of one card.
    """

    shares: int = 0
    memory: int = 0
    compute: int = 0

    def plus(self, other: "Amounts", times: int = 1) -> "Amounts":
        """The sum with a multiple of others."""
        return Amounts(
            self.shares + other.shares * times,
            self.memory + other.memory * times,
            self.compute + other.compute * times,
        )


NOTHING = Amounts()
