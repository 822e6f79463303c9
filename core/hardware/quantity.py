"""Bytes and percent: the only units of the core, and the only arithmetic on shares.

Memory is a whole number of bytes, compute a whole number of percent of one card.
"""

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

FULL = 100
"""Percent of one card's compute, or of its memory, that is the whole card."""

MAX_MEMORY = 1 << 48
"""Bytes of a card, and of a grant, at most: a description or a record with more is invalid.

All grants of one ledger together then stay below 63 bits.
"""

MAX_COMPUTE = 1 << 20
"""Percent of a card that a record may state at most, also one that states more than the card."""

MAX_NUMBER = (1 << 31) - 1
"""A card's number on its node, its slots, its NUMA node and its memory slices, at most."""


def bytes_of_percent(total: int, percent: int, step: int = 1) -> int:
    """Return the bytes that are some percent of a total, rounded down to a multiple of ``step``.

    Args:
        total: bytes, 0 or more.
        percent: 0 or more; above 100 the result is above the total.
        step: bytes, 1 or more: the smallest unit that the request's dialect can write.
    """
    return total * percent // FULL // step * step


def percent(amount: int, total: int) -> int:
    """Return how many whole percent of a total an amount is, rounded down; 0 for an empty total."""
    return amount * FULL // total if total else 0


def format_bytes(amount: int) -> str:
    """Return bytes as a person writes them: whole GiB where that is exact, else MiB.

    A remainder below one MiB is rounded up, so that no shortage is printed as 0.
    """
    mebibytes = -(-amount // MIB)
    if mebibytes >= KIB and mebibytes % KIB == 0:
        return f"{mebibytes // KIB} GiB"
    return f"{mebibytes} MiB"


def format_apart(left: int, right: int) -> tuple[str, str]:
    """Return two amounts of bytes with their units, so that different ones look different.

    In GiB where that suffices or they are equal, else in MiB where both are whole, else in bytes.
    """
    gib = f"{format_gib(left)} GiB", f"{format_gib(right)} GiB"
    if left == right or gib[0] != gib[1]:
        return gib
    if left % MIB or right % MIB:
        return f"{left} bytes", f"{right} bytes"
    return format_bytes(left), format_bytes(right)


def format_gib(amount: int) -> str:
    """Return bytes in GiB with one decimal, rounded to the nearest, without the unit."""
    tenths = (amount * 10 + GIB // 2) // GIB
    return f"{tenths // 10}.{tenths % 10}"
