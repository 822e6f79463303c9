"""Units of time. A duration or a time of a clock is a whole number of nanoseconds."""

from collections import OrderedDict
from collections.abc import Hashable

MILLISECOND = 1_000_000
"""Nanoseconds of a millisecond."""

SECOND = 1_000_000_000
"""Nanoseconds of a second."""

SKEW = 900 * SECOND
"""Nanoseconds by which the clocks of two machines may differ."""


class Sightings:
    """For how long this process has seen things as they are.

    A time that another process wrote is by its clock, which may be hours before or behind: it is
    for people, and never compared with the time here.
    """

    def __init__(self, most: int = 1024) -> None:
        """Have seen nothing yet; of more things than ``most``, the oldest are forgotten."""
        self._most = most
        self._seen: OrderedDict[Hashable, tuple[Hashable, int]] = OrderedDict()

    def age(self, key: Hashable, version: Hashable, now: int) -> int:
        """Return the nanoseconds since a thing was first seen in a version; 0 where it is now.

        Args:
            key: names the thing.
            version: what changes with it; may have times of other processes.
            now: monotonic nanoseconds.
        """
        known = self._seen.get(key)
        if known is None or known[0] != version:
            known = self._seen[key] = version, now
            self._seen.move_to_end(key)
            if len(self._seen) > self._most:
                self._seen.popitem(last=False)
        return now - known[1]

    def since(self, key: Hashable, at: int, now: int, wall: int) -> int:
        """Return the nanoseconds that have passed at least since what another process wrote.

        Args:
            key: names the thing.
            at: when the other wrote it, by its clock, in nanoseconds since 1970.
            now: monotonic nanoseconds.
            wall: nanoseconds since 1970, by the clock here.
        """
        return max(self.age(key, at, now), wall - at - SKEW)
