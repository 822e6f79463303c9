"""Nodes' values as the small whole numbers that schedulers take."""

from collections.abc import Mapping


def scaled(values: Mapping[str, tuple[int, ...] | None], most: int) -> dict[str, int]:
    """Scores from 0 to ``most``, in the order of the values; None counts as worse than all.

    With up to ``most`` + 1 different values they are spread evenly and the order is kept exactly;
    with more, the best ``most`` of them are told apart and all others get 0. Where all are equal,
    so are the scores: 0.
    """
    keys = {name: (0,) if value is None else (1, *value) for name, value in values.items()}
    order = sorted(set(keys.values()), reverse=True)
    last = len(order) - 1
    if last < 1:
        return dict.fromkeys(values, 0)
    if last <= most:
        score = {key: most - most * place // last for place, key in enumerate(order)}
    else:
        score = {key: max(most - place, 0) for place, key in enumerate(order)}
    return {name: score[key] for name, key in keys.items()}
