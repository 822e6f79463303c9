"""What a vocabulary must be able to do, and the values that pass through it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from adapters.wire.kube import DeviceObject, KubeNode, Pod
from core.hardware.card import Card
from core.hardware.node import Node, Partition
from core.requests.grant import Grant, Placement
from core.requests.request import Request, TaskClass


class DialectError(ValueError):
    """Something that its author wrote and that cannot be meant.

    Attributes:
        field: where it stands, such as ``spec.containers[main].resources.limits[a/b]``.
        value: what stands there.
        problem: what is wrong with it and what would be right.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field}: {value!r}: {problem}")
        self.field = field
        self.value = value
        self.problem = problem


class Policy(Enum):
    """The two policies that all three vocabularies know, for nodes and for cards."""

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the operator sets for pods that do not say; what a pod says wins.

    Attributes:
        node_policy: in place of the vocabulary's own default; None keeps it.
        card_policy: in place of the vocabulary's own default; None keeps it.
        topology_aware: whether links count in the choice of the node; None keeps the default.
    """

    node_policy: Policy | None = None
    card_policy: Policy | None = None
    topology_aware: bool | None = None


Document = tuple[str, str]
"""A settings file: the name of its config map, and its key there."""

Documents = Mapping[Document, object]
"""The settings files that there are, parsed from YAML into plain objects."""


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """What one vocabulary, or somebody else, says of one node.

    Attributes:
        cards: by ascending index, all with this vocabulary alone in ``dialects``.
        precision: bytes; the vocabulary states a card's memory no finer than this.
        slots_stated: False where ``Card.slots`` is only this vocabulary's default.
        isolation: as of ``Node``.
        partitions: as of ``Node``.
        partitions_bind: as of ``Node``.
        losses: as of ``Node``.
        gains: as of ``Node``.
        problems: what could not be read, as sentences; such cards are left out.
        author: who says it, where that is no vocabulary.
    """

    cards: tuple[Card, ...] = ()
    precision: int = 1
    slots_stated: bool = True
    isolation: str | None = None
    partitions: tuple[Partition, ...] = ()
    partitions_bind: bool = False
    losses: tuple[tuple[int, int], ...] = ()
    gains: tuple[tuple[int, int], ...] = ()
    problems: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What is written on a pod for its ecosystem's node components.

    Attributes:
        annotations: by key.
        labels: by key.
    """

    annotations: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AdoptedAllocation:
    """What a bound pod holds, by the record and the rules of the scheduler that bound it.

    Attributes:
        grants: in start order of the containers; none where that scheduler gave none.
        task_class: as of ``Request``.
        qos: as of ``Request``.
        group: as of ``Request``.
        exclusions: as of ``Request``.
    """

    grants: tuple[Grant, ...]
    task_class: TaskClass = TaskClass.NORMAL
    qos: str | None = None
    group: str | None = None
    exclusions: frozenset[str] = frozenset()


NO_ALLOCATION = AdoptedAllocation(())
"""Of a pod whose amounts are all 0 for its scheduler, so that it was given no card."""


class Dialect(Protocol):
    """One vocabulary, with the settings of its ecosystem."""

    @property
    def name(self) -> str:
        """The word by which requests and cards are told apart."""
        ...

    @property
    def result_keys(self) -> frozenset[str]:
        """The annotations and labels that only a scheduler may write."""
        ...

    @property
    def companions(self) -> frozenset[str]:
        """Resources of other vocabularies that may stand beside its own and then ask nothing."""
        ...

    def matches(self, pod: Pod) -> bool:
        """Whether the pod names any resource of this vocabulary, in whatever amount."""
        ...

    def read_request(self, pod: Pod) -> Request:
        """What a pod that ``asks`` wants.

        Raises:
            DialectError: it cannot be meant, or is out of scope.
        """
        ...

    def admission_defaults(self, pod: Pod, request: Request) -> Mapping[str, str]:
        """The annotations that the vocabulary's own admission writes where the author says none.

        Args:
            pod: the pod, about to be created.
            request: what was read from it.
        """
        ...

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:
        """The cards of a node; nothing of what stands there is an error for the caller."""
        ...

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """What its own components would have a node state, by the name of the resource.

        Only what schedulers and the kubelet count is named. Nothing where the vocabulary
        describes none of the cards; cards that are not healthy do not count.

        Args:
            cards: all of one node.
        """
        ...

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:
        """Whether the node's device plugin learns by a lock on the node which pod it serves.

        Then the lock must be the pod's when it is bound, and nobody else's.

        Args:
            request: what was read from the pod.
            node: where it goes.
        """
        ...

    def has_result(self, pod: Pod) -> bool:
        """Whether the pod carries this vocabulary's record of what it was given."""
        ...

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """What a pod was given, in start order of its containers.

        Cards that the node does not have are named as they stand.

        Raises:
            DialectError: the record cannot be understood.
        """
        ...

    def read_adopted(self, pod: Pod, node: Node) -> AdoptedAllocation | None:
        """What a pod holds that was bound by its ecosystem's own scheduler, by that one's rules.

        For pods that ``read_pod`` or ``read_result`` refuse: the record is then the truth, and
        not what the pod asks for. Cards that the node does not have are named as they stand.

        Returns:
            None where the pod was given cards and no record says which.

        Raises:
            DialectError: the record cannot be understood by these rules either.
        """
        ...

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> Result:
        """The record of a placement.

        Args:
            pod: the pod.
            request: what was read from it.
            placement: what it gets.
            node: the node of the placement.
            now: nanoseconds since 1970.
        """
        ...
