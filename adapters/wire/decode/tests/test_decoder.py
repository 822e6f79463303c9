import msgspec
import pytest

from adapters.wire.decode.decoder import Decoder, Text, UnreadableError, convert

HOSTILE: dict[str, Text] = {
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 1100 + b"1" + b"}" * 1100,
    "bad UTF-8": b'"\xff"',
    "half a pair of surrogates": b'"\\ud800"',
    "a surrogate in text": '"\ud800"',
    "cut off": b'{"a":',
    "empty": b"",
    "no number": b"NaN",
    "a number of 5,000 digits": b"1" * 5000,
    "a large exponent": b"1e400",
    "raw": msgspec.Raw(b"{"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", [object, str, int, list[int], dict[str, int]])
def test_a_text_that_cannot_be_decoded_raises_one_error(name: str, kind: type) -> None:
    with pytest.raises(UnreadableError) as caught:
        Decoder(kind).decode(HOSTILE[name])
    assert len(str(caught.value)) < 200


def test_a_value_that_cannot_be_converted_raises_the_same() -> None:
    assert convert({"a": "1"}, dict[str, int], strict=False) == {"a": 1}
    deep: object = 1
    for _ in range(1100):
        deep = [deep]
    for value in ("a", 10**5000, deep, "\ud800"):
        with pytest.raises(UnreadableError):
            convert(value, dict[str, int])
