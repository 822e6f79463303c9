import pytest

from adapters.dialects.go_bool import parse_bool


@pytest.mark.parametrize(
    ("word", "said"),
    [
        *(("true", True), ("T", True), ("1", True), ("False", False), ("0", False)),
        *(("yes", None), ("", None), ("tRUE", None)),
    ],
)
def test_truth_is_read_as_go_reads_it(word: str, said: bool | None) -> None:
    assert parse_bool(word) is said
