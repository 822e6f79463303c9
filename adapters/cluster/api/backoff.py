"""How long to wait before the next attempt."""

from random import SystemRandom

_DICE = SystemRandom()
_DOUBLINGS = 16


def delay(failures: int, *, first: float = 0.2, most: float = 30.0) -> float:
    """Seconds to wait after failures in a row: doubled by each, capped, half of them by chance.

    Args:
        failures: in a row, 1 or more; 0 counts as 1.
        first: seconds after the first failure, before chance takes up to half of it away.
        most: the cap in seconds.
    """
    whole = min(most, first * 2.0 ** min(max(failures, 1) - 1, _DOUBLINGS))
    return whole * _DICE.uniform(0.5, 1.0)


def jitter(seconds: float, share: float = 0.5) -> float:
    """About that many seconds, up to a share more, so that many clients do not act at once."""
    return seconds * _DICE.uniform(1.0, 1.0 + share)
