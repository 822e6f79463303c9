"""Bytes and percent: the only units of the core, and the only arithmetic on shares.

Memory is a whole number of bytes, compute a whole number of percent of one card.
"""

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

FULL = 100
"""Percent of one card's compute, or of its memory, that is the whole card."""


def bytes_of_percent(total: int, percent: int, step: int = 1) -> int:
    """The bytes that are some percent of a total, rounded down to a multiple of ``step``.

    Args:
        total: bytes, 0 or more.
        percent: 0 or more; above 100 the result is above the total.
        step: bytes, 1 or more: the smallest unit that the request's dialect can write.
    """
    return total * percent // FULL // step * step


def percent(amount: int, total: int) -> int:
    """How many whole percent of a total an amount is, rounded down; 0 for an empty total."""
    return amount * FULL // total if total else 0


def format_bytes(amount: int) -> str:
    """Bytes as a person writes them: whole GiB where that is exact, else MiB.

    A remainder below one MiB is rounded up, so that no shortage is printed as 0.
    """
    mebibytes = -(-amount // MIB)
    if mebibytes >= KIB and mebibytes % KIB == 0:
        return f"{mebibytes // KIB} GiB"
    return f"{mebibytes} MiB"


def format_gib(amount: int) -> str:
    """Bytes in GiB with one decimal, rounded to the nearest, without the unit."""
    tenths = (amount * 10 + GIB // 2) // GIB
    return f"{tenths // 10}.{tenths % 10}"
