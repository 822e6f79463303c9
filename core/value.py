"""The decorator of the values that a large cluster has millions of: each pod's part of each card.

The ``__init__`` of a frozen dataclass calls ``object.__setattr__`` for each field, which is most of
its time: an ``Allocation`` takes 1.6 us, and 0.3 us as here (Python 3.11). So these values are
frozen for the type checkers, which reject every assignment to a field, and not at run time.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:

    def value(*, frozen, slots):
        """Make a dataclass with slots that has the equality and the hash of a frozen one."""
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["value"]
