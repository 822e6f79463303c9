"""The expressions by which a claim of our driver selects cards, as they are written and read.

Expressions of the Common Expression Language are not evaluated: those of this form are read, and
no others. Source of the names: k8s.io/api v0.37.1 resource/v1/types.go, CELDeviceSelector.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRIVER
from adapters.wire.decode.decoder import Decoder, UnreadableError
from core.requests.request import Request

_OWN = f'device.attributes["{DRIVER}"]'
_VENDOR = f"{_OWN}.vendor == "
_UUID = f"{_OWN}.uuid in "
_TYPE = (
    f".exists(t, has({_OWN}.productName) &&"
    f" {_OWN}.productName.lowerAscii().contains(t.lowerAscii()))"
)
_TEXTS: Decoder[str | list[str]] = Decoder(str | list[str])
_NOT = re.compile(r"!\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CardConstraints:
    """Which cards a claim allows; each field as in ``Request``."""

    vendor: str | None = None
    allow_uuids: frozenset[str] | None = None
    deny_uuids: frozenset[str] = frozenset()
    allow_types: tuple[str, ...] | None = None
    deny_types: tuple[str, ...] = ()


def expressions(request: Request) -> Iterator[str]:
    """Write what a request demands of its cards."""
    if request.vendor:
        yield f"{_VENDOR}{_text(request.vendor)}"
    if request.allow_uuids is not None:
        yield f"{_UUID}{_list(sorted(request.allow_uuids))}"
    if request.deny_uuids:
        yield f"!({_UUID}{_list(sorted(request.deny_uuids))})"
    if request.allow_types is not None:
        yield f"{_list(request.allow_types)}{_TYPE}"
    if request.deny_types:
        yield f"!({_list(request.deny_types)}{_TYPE})"


def constraints(written: Iterable[str], place: str) -> CardConstraints:
    """Read expressions.

    Args:
        written: the expressions of a request.
        place: of the request, for errors.

    Raises:
        DialectError: an expression has another form, or two say the same of different cards.
    """
    found: dict[str, object] = {}
    for expression in written:
        read = _read(expression)
        if read is None or read[0] in found:
            problem = "only the expressions that this command writes can be translated, each once"
            raise DialectError(f"{place}.selectors", expression, problem)
        found[read[0]] = read[1]
    return CardConstraints(**found)  # type: ignore[arg-type]  # the names are of its fields


def _read(expression: str) -> tuple[str, object] | None:
    """The field that an expression states, and its value; None where the form is another one."""
    text = expression.strip()
    if text.startswith(_VENDOR):
        vendor = _parsed(text.removeprefix(_VENDOR))
        return ("vendor", vendor) if isinstance(vendor, str) else None
    denied = _NOT.fullmatch(text)
    bare, kind = (text, "allow") if denied is None else (denied[1], "deny")
    if bare.startswith(_UUID):
        uuids = _texts(bare.removeprefix(_UUID))
        return None if uuids is None else (f"{kind}_uuids", frozenset(uuids))
    if bare.endswith(_TYPE):
        types = _texts(bare.removesuffix(_TYPE))
        return None if types is None else (f"{kind}_types", tuple(types))
    return None


def _texts(text: str) -> list[str] | None:
    found = _parsed(text)
    return found if isinstance(found, list) else None


def _parsed(text: str) -> str | list[str] | None:
    """A text or a list of texts in double quotes, whose form JSON has too."""
    try:
        return _TEXTS.decode(text)
    except UnreadableError:
        return None


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
