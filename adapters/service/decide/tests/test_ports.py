"""Which failures of a Binding are definite."""

import pytest

from adapters.service.decide.ports import BindError


@pytest.mark.parametrize(
    ("status", "definite"),
    [(400, True), (403, True), (409, True), (408, False), (0, False), (504, False)],
)
def test_only_an_explicit_refusal_is_definite(status: int, definite: bool) -> None:
    assert BindError(status, "said").definite is definite
