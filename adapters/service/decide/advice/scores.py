"""Scores of nodes: the small whole numbers that schedulers accept."""

from collections.abc import Mapping

import numpy as np

from core.feasibility.columns import Numbers


def scaled(values: Mapping[str, tuple[int, ...] | None], most: int) -> dict[str, int]:
    """Scores by ``spread``, in the order of the values; None is below every value."""
    keys = [(0,) if value is None else (1, *value) for value in values.values()]
    order = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    ranks = np.array([order[key] for key in keys], np.int64)
    return dict(zip(values, spread(ranks, most).tolist(), strict=True))


def spread(ranks: Numbers, most: int) -> Numbers:
    """Scores from 0 to ``most``, in the order of the ranks.

    With up to ``most`` + 1 different ranks they are spread evenly and the order is kept exactly;
    with more, the best ``most`` of them get different scores and all others get 0. Where all are
    equal, so are the scores: 0.
    """
    if not ranks.size or (ranks == ranks[0]).all():  # of a dialect that prefers no node; no sort
        return np.zeros(ranks.size, np.int64)
    distinct, place = np.unique(ranks, return_inverse=True)
    last = len(distinct) - 1
    behind = last - place
    kept: Numbers = most * behind // last if last <= most else np.minimum(behind, most)
    return most - kept
