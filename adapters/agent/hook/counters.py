"""What the hook has done."""

from dataclasses import dataclass


@dataclass(slots=True)
class HookCounters:
    """What the hook has done since the agent started.

    Attributes:
        adjusted: containers that got an adjustment.
        untouched: containers that needed no adjustment.
        rejected: containers that the agent kept from starting.
        late: rejected containers for which there was no answer in time.
        connections: connections to the runtime that became active.
        without_share: containers that run without their share, as far as audits have seen.
        with_bypass: containers that can reach cards outside their share, as far as is known.
        active: whether the runtime calls the agent now.
    """

    adjusted: int = 0
    untouched: int = 0
    rejected: int = 0
    late: int = 0
    connections: int = 0
    without_share: int = 0
    with_bypass: int = 0
    active: bool = False
