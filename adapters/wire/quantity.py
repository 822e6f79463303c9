"""Kubernetes quantities: the text form of resource amounts.

Source: k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

import re
from fractions import Fraction
from functools import lru_cache

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_SMALL = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
# The lengths are bounded so that no text makes a number that takes seconds to compute.
_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,99}(?:\.[0-9]{0,99})?|\.[0-9]{1,99}))"
    r"(?P<suffix>[eE][+-]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE]?)",
    re.ASCII,
)


_MAX = Fraction((1 << 63) - 1)
# ``maxAllowed`` in the source.


class QuantityError(ValueError):
    """Text that is not a quantity."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """Return the exact amount of a quantity; as in Kubernetes, beyond 63 bits the largest one.

    Raises:
        QuantityError: the text is no quantity.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity")
    suffix = match["suffix"]
    unit = _BINARY.get(suffix) or _DECIMAL.get(suffix) or _SMALL.get(suffix)
    amount = Fraction(match["number"]) * (unit or Fraction(10) ** int(suffix[1:]))
    return max(-_MAX, min(amount, _MAX))


def parse_int(text: str) -> int:
    """Return the amount as a whole number.

    Raises:
        QuantityError: the text is no quantity, or the amount is not whole.
    """
    amount = parse(text)
    if amount.denominator != 1:
        raise QuantityError(f"{text!r} is not a whole number")
    return amount.numerator


def format_binary(amount: int) -> str:
    """Return a whole amount as Kubernetes prints it in BinarySI: ``40Gi``, ``28346784153``."""
    return _print(amount, [*_BINARY.items()], least=1024)


def format_decimal(amount: int) -> str:
    """Return a whole amount as Kubernetes prints it in DecimalSI: ``50``, ``1k``, ``1600``."""
    return _print(amount, [*_DECIMAL.items()][1:], least=1000)


def _print(amount: int, units: list[tuple[str, int]], least: int) -> str:
    if abs(amount) >= least:
        for suffix, size in reversed(units):
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)
