"""No text ends the process, takes long, or gives a value that JSON does not have."""

import contextlib
import time

import msgspec
import pytest
import yaml

from adapters.tests.hostile_texts import TEXTS
from adapters.wire.decode import yaml_decoding
from adapters.wire.decode.decoder import UnreadableError
from adapters.wire.decode.yaml_decoding import LARGEST, decode

SOUND = {
    "a: [1, 0x10, 1.5, yes, null, text]\nb: &x {c: 1}\nd: {<<: *x, e: 2}": {
        "a": [1, 16, 1.5, True, None, "text"],
        "b": {"c": 1},
        "d": {"c": 1, "e": 2},
    },
    "0000:17:00.0": "0000:17:00.0",
    "2001-01-01": "2001-01-01",
    "": None,
}


@pytest.mark.parametrize("text", SOUND)
def test_a_text_is_read_as_kubernetes_reads_it(text: str) -> None:
    assert decode(text) == SOUND[text]


@pytest.mark.parametrize("what", TEXTS)
def test_a_hostile_text_gives_json_or_one_error(what: str) -> None:
    began = time.process_time()
    with contextlib.suppress(UnreadableError):
        msgspec.json.encode(decode(TEXTS[what]))
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2", "line 2: is not YAML: the key 'a' is duplicated"),
        ("a: !!set {b}", "line 1: is not YAML: could not determine a constructor"),
        ("a: !!bool maybe", "line 1: is not YAML: 'maybe' is not of type bool"),
        ("a: " + "9" * 20, "line 1: is not YAML"),
        ("x" * (LARGEST + 1), "is longer than"),
        ("[" * 1000, "line 1: [0][0][0][0][0][0]: is nested more than 200 levels deep"),
    ],
)
def test_the_error_says_where(text: str, problem: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        decode(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("text", ['a: "\\U00110000"', 'a: "\\UFFFFFFFF"'])
def test_a_character_that_is_none_is_an_error_without_libyaml_too(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml, "CSafeLoader", yaml.SafeLoader)
    monkeypatch.setattr(yaml_decoding, "Loader", yaml.SafeLoader)

    with pytest.raises(UnreadableError, match="line 1: is not YAML"):
        decode(text)


def test_the_longest_text_does_not_hold_the_service_up() -> None:
    lines = "\n".join(f"k{at}: [{{a: b, c: d}}, e]" for at in range(LARGEST // 30))
    assert len(lines) <= LARGEST

    began = time.process_time()
    decode(lines)

    assert time.process_time() - began < 3
