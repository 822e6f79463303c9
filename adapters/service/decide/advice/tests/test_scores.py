"""Scores keep the order of the values."""

from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from adapters.service.decide.advice.feasibility import scaled


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.one_of(st.none(), st.tuples(st.integers(-5, 30), st.integers(-5, 5))),
    )
)
def test_scores_never_contradict_the_values(values: Mapping[str, tuple[int, ...] | None]) -> None:
    scores = scaled(values, 10)

    assert set(scores) == set(values)
    assert all(0 <= score <= 10 for score in scores.values())
    ordered = sorted(values, key=lambda name: (values[name] is not None, values[name] or ()))
    assert all(scores[a] <= scores[b] for a, b in pairwise(ordered))
    if len(set(values.values())) > 1:
        best = max(values, key=lambda name: (values[name] is not None, values[name] or ()))
        assert scores[best] == 10
