"""What the hook has done."""

from dataclasses import dataclass


@dataclass(slots=True)
class HookCounters:
    """What the hook has done since it was made.

    Attributes:
        adjusted: containers that got something.
        untouched: containers that got nothing and needed nothing.
        refused: containers that were kept from starting.
        late: of those, how many because there was no answer in time.
        connections: how often the runtime was reached.
        unserved: containers that run without what they were sold, as far as audits have seen.
        exposed: containers that can reach cards past their share, as far as is known.
        active: whether the runtime asks us now.
    """

    adjusted: int = 0
    untouched: int = 0
    refused: int = 0
    late: int = 0
    connections: int = 0
    unserved: int = 0
    exposed: int = 0
    active: bool = False
