import yaml
from hypothesis import given
from hypothesis import strategies as st

from adapters.cli.configure.document import recorded, restored
from adapters.cli.input.yaml_text import dump, load


def there_and_back(text: str) -> str:
    """A value of a configuration, recorded and restored, as text again."""
    content, layout = load(text, lambda line: f"line {line}")
    content["a"] = restored(recorded(content["a"]))
    return dump(content, layout)


def test_a_word_in_quotes_comes_back_as_the_word_that_it_was() -> None:
    assert there_and_back("a: 'on'\n") == 'a: "on"\n'
    assert there_and_back("a: {b: ':x'}\n") == 'a:\n  b: ":x"\n'
    assert there_and_back("a:\n  'y': 'n'\n") == 'a:\n  "y": "n"\n'


def test_a_boolean_of_yaml_1_1_comes_back_as_a_boolean() -> None:
    assert there_and_back("a: on\n") == "a: true\n"
    assert there_and_back("a: [off, y, N, yes]\n") == "a:\n- false\n- true\n- false\n- true\n"


def test_a_plain_word_stays_without_quotes() -> None:
    assert there_and_back("a: deviceshare\n") == "a: deviceshare\n"
    assert there_and_back("a: {b.c/d: e-f}\n") == "a:\n  b.c/d: e-f\n"


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), max_size=6))
def test_any_word_in_quotes_is_read_as_that_word_by_yaml_1_1(word: str) -> None:
    text = yaml.safe_dump({"a": {word: word}}, default_style='"')

    assert yaml.safe_load(there_and_back(text)) == {"a": {word: word}}
