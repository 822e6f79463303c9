"""The memory amount of an sGPU.

Source: MetaX sGPU manual, table 7.7; HAMi v2.10.0 pkg/device/metax/sdevice.go:251-278.
"""

from dataclasses import dataclass

from adapters.dialects.containers import PodContainer, stated_amount
from adapters.dialects.dialect import DialectError
from adapters.wire.quantity import QuantityError, parse
from core.hardware.quantity import GIB, MIB, format_bytes

MAX_AMOUNT = 2**31 - 1
"""The largest number that a record can contain, in its own unit."""


@dataclass(frozen=True, slots=True)
class MemoryAmount:
    """An amount of memory that a record can contain.

    Attributes:
        size: bytes, a whole number of MiB.
        note: says that the amount was rounded, and to what; empty where it was not.
    """

    size: int
    note: str


def memory_amount(member: PodContainer, resource: str) -> MemoryAmount | None:
    """The memory that a container requests; None where it requests none.

    A number without a suffix is in GiB. The function rounds every amount down to whole MiB, the
    smallest unit of a record.

    Raises:
        DialectError: the text is not an amount, or less than 1 MiB, or too large for a record.
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
        problem = f"must be 1Mi to {MAX_AMOUNT}Mi; a bare number counts GiB; omit it for all memory"
        raise DialectError(place, value, problem)
    size = mebibytes * MIB
    note = f"{place}: {value} is rounded down to {format_bytes(size)}" if size != amount else ""
    return MemoryAmount(size, note)
