"""What containers were granted, beside what they use, under our own names.

The grants are the ledger's. The rest is HAMi-core's record in the container's folder: the container
can write there, so that it is no proof of what it uses or of how it is limited.
"""

from collections.abc import Callable, Iterable, Sequence

from adapters.agent.grants import GrantAnswer
from adapters.agent.hook.containers import ContainerInfo, ContainerRegistry
from adapters.agent.metrics.exposition import Family, Sample
from adapters.agent.metrics.naming import Labels, short
from adapters.agent.metrics.usage import ShareUse
from core.hardware.quantity import FULL
from core.requests.limits import CardLimit, GrantError, Limits


def granted_families(
    node: str,
    containers: ContainerRegistry,
    granted: Callable[[str, str], GrantAnswer],
    uses: Sequence[ShareUse],
) -> list[Family]:
    """Memory and compute of each container on each card.

    Args:
        node: its name.
        containers: of the node.
        granted: a container's grant, by uid of its pod and its name.
        uses: of the containers that have a record.
    """
    grants = [
        (_labels(node, container, card), amounts)
        for (uid, name), container in containers.present()
        for card, amounts in _by_card(cards_of(granted, uid, name)).items()
    ]
    recorded = [(_labels(node, use.container, use.card.uuid), use.card) for use in uses]
    return [
        Family(
            "dragoman_container_memory_granted_bytes",
            "Memory of a card that the ledger grants a container.",
            tuple(Sample(labels, memory) for labels, (memory, _) in grants),
        ),
        Family(
            "dragoman_container_compute_granted_ratio",
            "Compute of a card that the ledger grants a container, 0 to 1; 0: none is reserved.",
            tuple(Sample(labels, compute / FULL) for labels, (_, compute) in grants),
        ),
        Family(
            "dragoman_container_memory_used_bytes",
            "Memory of a card that a container uses, as HAMi-core records it.",
            tuple(Sample(labels, card.used) for labels, card in recorded),
        ),
        Family(
            "dragoman_container_memory_limit_bytes",
            "Memory of a card to which HAMi-core limits a container; 0 for no limit.",
            tuple(Sample(labels, card.limit) for labels, card in recorded),
        ),
        Family(
            "dragoman_container_compute_used_ratio",
            "Compute of a card that a container uses, 0 to 1, as HAMi-core records it.",
            tuple(Sample(labels, card.compute / FULL) for labels, card in recorded),
        ),
    ]


def cards_of(granted: Callable[[str, str], GrantAnswer], uid: str, name: str) -> list[CardLimit]:
    """A container's cards in the order in which it numbers them; none if its grant is invalid."""
    try:
        limits = granted(uid, name)
    except GrantError:
        return []
    if not isinstance(limits, Limits):
        return []
    return sorted(limits.cards, key=lambda card: (card.index, card.uuid))


def _by_card(limits: Iterable[CardLimit]) -> dict[str, tuple[int, int]]:
    """Memory and compute by card, of which a container can have several slices."""
    sums: dict[str, tuple[int, int]] = {}
    for limit in limits:
        memory, compute = sums.get(limit.uuid, (0, 0))
        sums[limit.uuid] = memory + limit.memory, compute + limit.compute
    return sums


def _labels(node: str, container: ContainerInfo, uuid: str) -> Labels:
    return {
        "node": node,
        "namespace": container.namespace,
        "pod": container.pod,
        "container": container.container,
        "uuid": short(uuid),
    }
