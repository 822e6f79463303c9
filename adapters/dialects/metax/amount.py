"""The memory amount of an sGPU.

Source: MetaX sGPU manual, table 7.7; HAMi v2.10.0 pkg/device/metax/sdevice.go:251-278.
"""

from dataclasses import dataclass

from adapters.dialects.containers import PodContainer, stated_amount
from adapters.dialects.dialect import DialectError
from adapters.wire.quantity import QuantityError, parse
from core.hardware.quantity import GIB, MIB, show

MAX_AMOUNT = 2**31 - 1
"""The largest number that a record can hold, in its own unit."""


@dataclass(frozen=True, slots=True)
class MemoryAmount:
    """An amount that can be written in a record.

    Attributes:
        size: bytes, a whole number of MiB.
        note: what was rounded off, as a sentence; empty for nothing.
    """

    size: int
    note: str


def memory_amount(member: PodContainer, resource: str) -> MemoryAmount | None:
    """The memory that a container names; None where it names none.

    A bare number counts GiB; with a suffix the amount is what it says. Both are rounded down to
    whole MiB, the smallest unit of a record.

    Raises:
        DialectError: no amount, less than 1 MiB, or more than a record can hold.
    """
    found = stated_amount(member, resource)
    if found is None:
        return None
    place, value = found
    text = str(value).strip()
    try:
        amount = parse(text)
    except QuantityError:
        problem = "must be a number of GiB such as 4, or an amount such as 4Gi or 2048Mi"
        raise DialectError(place, value, problem) from None
    if not any(letter.isalpha() for letter in text):
        if amount.denominator != 1:
            raise DialectError(place, value, "must be a whole number of GiB, or have a unit")
        amount *= GIB
    mebibytes = amount // MIB
    if not 1 <= mebibytes <= MAX_AMOUNT:
        problem = (
            f"must be 1Mi to {MAX_AMOUNT}Mi; a bare number counts GiB; leave it out for all memory"
        )
        raise DialectError(place, value, problem)
    size = mebibytes * MIB
    note = f"{place}: {value} is rounded down to {show(size)}" if size != amount else ""
    return MemoryAmount(size, note)
