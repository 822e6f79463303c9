import pytest

from adapters.dialects.formats.annotation_values import parse_bool


@pytest.mark.parametrize(
    ("word", "parsed"),
    [
        *(("true", True), ("T", True), ("1", True), ("False", False), ("0", False)),
        *(("yes", None), ("", None), ("tRUE", None)),
    ],
)
def test_booleans_are_parsed_as_in_go(word: str, parsed: bool | None) -> None:
    assert parse_bool(word) is parsed
