"""The part of protobuf's wire format that NRI needs, without a schema.

Source: protobuf.dev/programming-guides/encoding. A reader takes the fields that it knows and passes
over the rest; a field that comes in an unexpected wire type counts as unknown.
"""

from collections.abc import Iterable

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; 3 and 4 are groups, which no message here has."""

_MORE = 0x80
"""Set in each byte of a number but the last."""

_WORD = 1 << 64
_LONGEST = 10
"""Bytes that the longest varint takes."""

Field = tuple[int, int | bytes]
"""Number and value: an integer of 0 or more for the number types, else the bytes."""


class ProtobufError(ValueError):
    """Bytes that are no message."""


def fields(data: bytes) -> list[Field]:
    """The fields of a message, in the order in which they stand there.

    Numbers of one byte, which nearly all are, are read in place: this stands in the way of every
    container.

    Raises:
        ProtobufError: the bytes end within a field, or are no field.
    """
    found: list[Field] = []
    place, end = 0, len(data)
    while place < end:
        tag = data[place]
        place += 1
        if tag >= _MORE:
            tag, place = _varint(data, place - 1)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError("a field has the number 0")
        if kind == BYTES:
            size = data[place] if place < end else _MORE
            place += 1
            if size >= _MORE:
                size, place = _varint(data, place - 1)
            stop = place + size
            if stop > end:
                raise ProtobufError(f"field {number} ends after the message")
            found.append((number, data[place:stop]))
            place = stop
        elif kind == VARINT:
            value, place = _varint(data, place)
            found.append((number, value))
        elif kind in (FIXED32, FIXED64):
            stop = place + (4 if kind == FIXED32 else 8)
            if stop > end:
                raise ProtobufError(f"field {number} ends after the message")
            found.append((number, int.from_bytes(data[place:stop], "little")))
            place = stop
        else:
            raise ProtobufError(f"field {number} has the wire type {kind}")
    return found


def nested(data: bytes) -> list[tuple[int, bytes]]:
    """Those fields of a message that are text, bytes or messages."""
    return [(number, value) for number, value in fields(data) if isinstance(value, bytes)]


def string(value: bytes) -> str:
    """A text field.

    Raises:
        ProtobufError: it is not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ProtobufError("a text is not UTF-8") from None


def strings(values: Iterable[bytes]) -> tuple[str, ...]:
    """Many text fields at once.

    Raises:
        ProtobufError: one is not UTF-8.
    """
    try:
        return tuple([value.decode() for value in values])
    except UnicodeDecodeError:
        raise ProtobufError("a text is not UTF-8") from None


def signed(value: int) -> int:
    """An int32 or int64 field, which stands as its two's complement of 64 bits."""
    return value - _WORD if value >= _WORD // 2 else value


def entry(data: bytes) -> tuple[str, str]:
    """Key and value of one entry of a map from text to text."""
    found = {1: "", 2: ""}
    for number, value in nested(data):
        if number in found:
            found[number] = string(value)
    return found[1], found[2]


def key(data: bytes) -> str:
    """The key of one entry of a map whose keys are text."""
    found = b""
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            found = value
    return string(found)


def integer(number: int, value: int) -> bytes:
    """A number field; nothing where it is 0, as every proto3 writer does."""
    if value == 0:
        return b""
    return _number(number << 3 | VARINT) + _number(value % _WORD)


def message(number: int, value: bytes) -> bytes:
    """A field that holds bytes or a message, also where that is empty."""
    tag, size = number << 3 | BYTES, len(value)
    if tag < _MORE and size < _MORE:
        return bytes((tag, size)) + value
    return _number(tag) + _number(size) + value


def text(number: int, value: str) -> bytes:
    """A text field; nothing where it is empty, as every proto3 writer does."""
    return message(number, value.encode()) if value else b""


def _number(value: int) -> bytes:
    if value < _MORE:
        return bytes((value,))
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    try:
        byte = data[place]
        if byte < _MORE:
            return byte, place + 1
        value, shift = byte & 0x7F, 7
        for at in range(place + 1, place + _LONGEST):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                return value % _WORD, at + 1
            shift += 7
    except IndexError:
        raise ProtobufError("the bytes end within a number") from None
    raise ProtobufError(f"a number takes more than {_LONGEST} bytes")
