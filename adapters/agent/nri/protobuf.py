"""protobuf's wire format without a schema, as far as NRI and the kubelet's checkpoint need it.

Source: protobuf.dev/programming-guides/encoding. A reader uses the fields that it knows and skips
the rest; a known field in an unexpected wire type counts as unknown.
"""

from collections.abc import Iterable

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; 3 and 4 are groups, which no message here has."""

_MORE = 0x80
"""Set in each byte of a varint but the last."""

_WORD = 1 << 64
_MAX_VARINT = 10
"""Bytes of the longest varint."""

Field = tuple[int, int | bytes]
"""Number and value: an integer of 0 or more for the number types, else the bytes."""


class ProtobufError(ValueError):
    """The bytes are not a valid message."""


def fields(data: bytes) -> list[Field]:
    """Return the fields of a message, in the order of its bytes.

    Nearly all varints have one byte; these are read inline, because every container's creation
    waits for this function.

    Raises:
        ProtobufError: the bytes end within a field, or a field is invalid.
    """
    found: list[Field] = []
    place, end = 0, len(data)
    while place < end:
        tag = data[place]
        place += 1
        if tag >= _MORE:
            tag, place = _decode_varint(data, place - 1)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError("a field has the invalid number 0")
        if kind == BYTES:
            size = data[place] if place < end else _MORE
            place += 1
            if size >= _MORE:
                size, place = _decode_varint(data, place - 1)
            stop = place + size
            if stop > end:
                raise ProtobufError(f"field {number} extends beyond the message")
            found.append((number, data[place:stop]))
            place = stop
        elif kind == VARINT:
            value, place = _decode_varint(data, place)
            found.append((number, value))
        elif kind in (FIXED32, FIXED64):
            stop = place + (4 if kind == FIXED32 else 8)
            if stop > end:
                raise ProtobufError(f"field {number} extends beyond the message")
            found.append((number, int.from_bytes(data[place:stop], "little")))
            place = stop
        else:
            raise ProtobufError(f"field {number} has the unsupported wire type {kind}")
    return found


def nested(data: bytes) -> list[tuple[int, bytes]]:
    """Return the fields of a message that are strings, bytes or messages."""
    return [(number, value) for number, value in fields(data) if isinstance(value, bytes)]


def latest(data: bytes) -> tuple[dict[int, bytes], dict[int, int]]:
    """Return the last value of each field: strings, bytes and messages, and numbers."""
    texts: dict[int, bytes] = {}
    numbers: dict[int, int] = {}
    for number, value in fields(data):
        if isinstance(value, int):
            numbers[number] = value
        else:
            texts[number] = value
    return texts, numbers


def string(value: bytes) -> str:
    """Return the value of a string field.

    Raises:
        ProtobufError: the value is not UTF-8.
    """
    return strings((value,))[0]


def strings(values: Iterable[bytes]) -> tuple[str, ...]:
    """Return the values of many string fields at once.

    Raises:
        ProtobufError: a value is not UTF-8.
    """
    try:
        return tuple([value.decode() for value in values])
    except UnicodeDecodeError:
        raise ProtobufError("a string is not UTF-8") from None


def signed(value: int) -> int:
    """Return the value of an int32 or int64 field, which is sent as a 64-bit two's complement."""
    return value - _WORD if value >= _WORD // 2 else value


def entry(data: bytes) -> tuple[str, str]:
    """Key and value of one entry of a map from string to string."""
    texts, _ = latest(data)
    return string(texts.get(1, b"")), string(texts.get(2, b""))


def key(data: bytes) -> str:
    """Return the key of one entry of a map whose keys are strings."""
    return string(latest(data)[0].get(1, b""))


def integer(number: int, value: int) -> bytes:
    """Encode a varint field; empty for 0, as in every proto3 encoder."""
    if value == 0:
        return b""
    return _encode_varint(number << 3 | VARINT) + _encode_varint(value % _WORD)


def message(number: int, value: bytes) -> bytes:
    """Encode a bytes or message field; written also where the value is empty."""
    tag, size = number << 3 | BYTES, len(value)
    if tag < _MORE and size < _MORE:
        return bytes((tag, size)) + value
    return _encode_varint(tag) + _encode_varint(size) + value


def text(number: int, value: str) -> bytes:
    """Encode a string field; empty for an empty string, as in every proto3 encoder."""
    return message(number, value.encode()) if value else b""


def _encode_varint(value: int) -> bytes:
    if value < _MORE:
        return bytes((value,))
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def _decode_varint(data: bytes, place: int) -> tuple[int, int]:
    try:
        byte = data[place]
        if byte < _MORE:
            return byte, place + 1
        value, shift = byte & 0x7F, 7
        for at in range(place + 1, place + _MAX_VARINT):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                return value % _WORD, at + 1
            shift += 7
    except IndexError:
        raise ProtobufError("the bytes end within a varint") from None
    raise ProtobufError(f"a varint has more than {_MAX_VARINT} bytes")
