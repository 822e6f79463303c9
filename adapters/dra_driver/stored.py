"""Whether the API server stored what was sent.

It drops fields whose feature is off without a word (k8s.io/kubernetes v1.37.1
pkg/registry/resource/resourceslice/strategy.go, dropDisabledFields): a shared device becomes a
dedicated one.
"""

from collections.abc import Iterator
from typing import Any

from adapters.wire.quantity import QuantityError, parse


def lost(sent: Any, stored: Any, path: str) -> Iterator[str]:
    """The paths at which something that was sent is missing, or has another value.

    Quantities are compared by their amount: the server writes 81920Mi as 80Gi.
    """
    if isinstance(sent, dict):
        if sent and not isinstance(stored, dict):
            yield path
            return
        for name, value in sent.items():
            yield from lost(value, stored.get(name), f"{path}.{name}")
    elif isinstance(sent, list):
        items = stored if isinstance(stored, list) else []
        if len(items) != len(sent):
            yield path
            return
        for number, (value, other) in enumerate(zip(sent, items, strict=True)):
            yield from lost(value, other, f"{path}[{number}]")
    elif sent != stored and not _same_amount(sent, stored):
        yield path


def _same_amount(sent: Any, stored: Any) -> bool:
    try:
        return isinstance(sent, str) and isinstance(stored, str) and parse(sent) == parse(stored)
    except QuantityError:
        return False
