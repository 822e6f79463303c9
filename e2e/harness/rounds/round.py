"""How many pods were bound once, and what it cost."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Pods that all waited for a scheduler when it started.

    Attributes:
        pods: how many.
        seconds: from the first to the last that was bound.
        processor: seconds of each component meanwhile.
        yardstick: processor seconds of a fixed piece of work meanwhile, as ``Yardstick`` has it.
    """

    pods: int
    seconds: float
    processor: Mapping[str, float]
    yardstick: float

    @property
    def rate(self) -> float:
        """Pods in a second."""
        return (self.pods - 1) / self.seconds

    @property
    def work(self) -> float:
        """Pieces of the yardstick's work that take as long as one pod, on any machine."""
        return sum(self.processor.values()) / self.pods / self.yardstick
