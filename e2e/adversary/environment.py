"""Whether a container finds what its pod holds, by what NVIDIA's runtime and HAMi-core obey."""

from collections.abc import Mapping, Sequence

from e2e.adversary.cards import Card
from e2e.adversary.rules import FULL, Held


def wrong(
    name: str, inside: Mapping[str, str], held: Sequence[Held], cards: Sequence[Card]
) -> list[str]:
    """Where a container's environment is not what its pod holds, as sentences.

    Args:
        name: of the pod.
        inside: the environment.
        held: by its pod, which has no other container.
        cards: of its node, in the order of their indexes.
    """
    order = {card.uuid: at for at, card in enumerate(cards)}
    memory = {card.uuid: card.memory for card in cards}
    rows = sorted(held, key=lambda row: order[row.card])
    expected: dict[str, str | None] = {"NVIDIA_VISIBLE_DEVICES": ",".join(row.card for row in rows)}
    shared = [not row.exclusive and 0 < row.compute < FULL for row in rows]
    is_loaded = any(shared) or any(row.memory < memory[row.card] for row in rows)
    for at, row in enumerate(rows):
        expected[f"CUDA_DEVICE_MEMORY_LIMIT_{at}"] = f"{row.memory}m" if is_loaded else None
        expected[f"CUDA_DEVICE_SM_LIMIT_{at}"] = str(row.compute) if shared[at] else None
    return [
        f"{name}: {key} is {inside.get(key)}, not {value}"
        for key, value in expected.items()
        if inside.get(key) != value
    ]
