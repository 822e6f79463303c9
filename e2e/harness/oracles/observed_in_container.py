"""What containers find inside, summed up over all that run on a node at a time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from e2e.harness.node.cri import Cri, CriError
from e2e.harness.oracles.from_annotations import Share, sums
from e2e.harness.processes.repeating import repeating
from e2e.harness.workloads.inventory import Gpu

FULL = 100
_MIB = 1 << 20


def shares_inside(env: Mapping[str, str], cards: Sequence[Gpu]) -> list[Share]:
    """What a container may use, by the variables that NVIDIA's runtime and HAMi-core obey.

    Without a bound it may use all of a card's memory; of compute it then has no certain share.
    Source: HAMi-core src/multiprocess/multiprocess_memory_limit.c.
    """
    visible = env.get("NVIDIA_VISIBLE_DEVICES", "void")
    if visible == "void":
        return []
    by_uuid = {card.uuid: card for card in cards}
    found = []
    for place, uuid in enumerate(visible.split(",")):
        bound = env.get(f"CUDA_DEVICE_MEMORY_LIMIT_{place}")
        memory = by_uuid[uuid].memory if bound is None else _mebibytes(bound)
        found.append(Share(uuid, memory, int(env.get(f"CUDA_DEVICE_SM_LIMIT_{place}", "0"))))
    return sorted(found)


@dataclass(slots=True)
class ContainerWatcher:
    """Looks at the running containers of a node again and again, from inside.

    Attributes:
        cards: of the node.
        seen: what each container found, by its id.
        most: the most containers that ran at a time.
        looks: how often it has looked.
    """

    cri: Cri
    cards: Sequence[Gpu]
    seen: dict[str, list[Share]] = field(default_factory=dict[str, list[Share]])
    most: int = 0
    looks: int = 0
    _problems: list[str] = field(default_factory=list[str])

    @classmethod
    @contextmanager
    def of(cls, cri: Cri, cards: Sequence[Gpu]) -> Iterator["ContainerWatcher"]:
        """Watch for the length of a block."""
        watcher = cls(cri, cards)
        with repeating(watcher.look, 0.1):
            yield watcher

    def look(self) -> None:
        """One look at all that run now."""
        running = self.cri.running()
        for container in running:
            if container not in self.seen:
                try:
                    self.seen[container] = shares_inside(self.cri.env(container), self.cards)
                except CriError:
                    continue  # it has ended meanwhile
        self.looks += 1
        self.most = max(self.most, len(running))
        shares = [share for container in running for share in self.seen.get(container, ())]
        memory, compute = sums(shares)
        self._problems += [
            f"{card.uuid}: {memory[card.uuid]} of {card.memory} MiB, {compute[card.uuid]} %"
            for card in self.cards
            if memory[card.uuid] > card.memory or compute[card.uuid] > FULL
        ]

    def problems(self) -> list[str]:
        """What did not fit so far."""
        return list(self._problems)


def _mebibytes(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) // _MIB
