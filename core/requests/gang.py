"""Gangs: pods of which a least number is bound, or none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class GangApi(Enum):
    """Whose words name a gang. The value is what people read."""

    KUBERNETES = "PodGroup of scheduling.k8s.io"
    KOORDINATOR = "gang by Koordinator's keys"
    SCHEDULER_PLUGINS = "PodGroup of scheduling.x-k8s.io"
    VOLCANO = "PodGroup of scheduling.volcano.sh"


@dataclass(frozen=True, slots=True)
class GangRef:
    """The name of a gang.

    ``str()`` gives ``namespace/name``.

    Attributes:
        api: whose words name it; gangs of two do not know each other.
    """

    api: GangApi
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class GangRule:
    """What a gang needs before the first of its pods may be bound.

    Attributes:
        minimum: pods that are bound together, 1 or more.
        others: gangs that are bound together with this one, each with its own minimum.
        tasks: how many pods of each kind are among the minimum at least, by name of the kind;
            together no more than the minimum.
    """

    minimum: int
    others: frozenset[GangRef] = frozenset()
    tasks: Mapping[str, int] = field(default_factory=dict[str, int])
