"""The interface of a dialect, and the values that pass through it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, Literal, Self

from adapters.wire.kube import DeviceObject, KubeNode, Pod
from core.hardware.card import Card
from core.hardware.node import Node, Partition
from core.requests.grant import Grant, Placement
from core.requests.request import ANY_TERMS, Request, SharingTerms

SHOWN = 200
"""Characters of a value that an error quotes."""


class DialectError(ValueError):
    """A pod, a record or a settings file has an invalid value; its author has to change it.

    Attributes:
        field: path of the value, such as ``spec.containers[main].resources.limits[a/b]``.
        problem: what is wrong with it and what would be right.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field}: {_shown(value)}: {problem}")
        self.field = field
        self.value = value
        self.problem = problem


class UnclearRecord(DialectError):  # noqa: N818 (the record is the subject)
    """A record that names all cards of its pod, and does not say what the pod has of each.

    Attributes:
        cards: uuids of these cards, and of those that it may mean; they count as in use.
    """

    def __init__(self, field: str, value: object, problem: str, cards: Iterable[str]) -> None:
        super().__init__(field, value, problem)
        self.cards = frozenset(cards)


def _shown(value: object) -> str:
    """Return a value as an error quotes it; a long one is cut, as ledgers and Events keep it."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text) - 2} characters)"


class SchedulingPolicy(Enum):
    """The two policies that every dialect has, for nodes and for cards."""

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Defaults:
    """The operator's settings for pods that set no policy; what a pod sets wins.

    Attributes:
        node_policy: replaces the dialect's own default; None keeps it.
        card_policy: replaces the dialect's own default; None keeps it.
        topology_aware: whether links count in the choice of the node; None keeps the default.
    """

    node_policy: SchedulingPolicy | None = None
    card_policy: SchedulingPolicy | None = None
    topology_aware: bool | None = None


Document = tuple[str, str]
"""A settings file of a scheduler: the name of its ConfigMap, and the key in it."""

Documents = Mapping[Document, object]
"""The settings files that exist, parsed from YAML into plain objects."""


NO_SCORES: Mapping[str, Mapping[str, int]] = MappingProxyType({})
"""No source says how well cards are linked."""


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """What one source, usually a dialect, reports about one node.

    Attributes:
        cards: by ascending index; ``dialects`` of each has this dialect only.
        precision: bytes; the source states a card's memory in multiples of this.
        slots_stated: False where ``Card.slots`` is only the default of this dialect.
        compute_stated: False where the source, which is no dialect, does not say how much compute
            pods may have.
        isolation: as in ``Node``.
        partitions: as in ``Node``.
        partitions_bind: as in ``Node``.
        losses: as in ``Node``.
        gains: as in ``Node``.
        scores: by uuid of one card and of another, how well they are linked; higher is better.
        problems: what could not be parsed, as sentences; ``cards`` omits such cards.
        uncounted: uuid of a device that is no card by this source, empty where it states none, and
            why; a problem unless another source describes the card.
        closed: uuids of cards, of any source, that get no new pod by this source, and why.
        source: name of the source where it is not a dialect.
    """

    cards: tuple[Card, ...] = ()
    precision: int = 1
    slots_stated: bool = True
    compute_stated: bool = True
    isolation: str | None = None
    partitions: tuple[Partition, ...] = ()
    partitions_bind: bool = False
    losses: tuple[tuple[int, int], ...] = ()
    gains: tuple[tuple[int, int], ...] = ()
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: NO_SCORES)
    problems: tuple[str, ...] = ()
    uncounted: tuple[tuple[str, str], ...] = ()
    closed: tuple[tuple[str, str], ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The metadata that a bound pod gets for the node components of its ecosystem.

    Attributes:
        annotations: by key.
        labels: by key.
    """

    annotations: Mapping[str, str]
    labels: Mapping[str, str]


NO_RESULT = Result({}, {})
"""The result for a pod whose cards the kubelet chooses: no scheduler writes a record on it."""


ByContainer = Mapping[str, Mapping[str, str]]
"""Entries by the name of a container."""


def _no_containers() -> ByContainer:
    return {}


@dataclass(frozen=True, slots=True)
class AdmissionDefaults:
    """What the ecosystem's own webhook adds to a pod that the API server is about to create.

    Attributes:
        limits: amounts of resources that a container lacks, by the name of the resource.
        variables: of a container's environment, in place of the author's.
    """

    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: ByContainer = field(default_factory=_no_containers)
    variables: ByContainer = field(default_factory=_no_containers)


NO_DEFAULTS = AdmissionDefaults()


@dataclass(frozen=True, slots=True)
class AdoptedAllocation:
    """What another scheduler allocated to a pod, by the record and the rules of that scheduler.

    Attributes:
        grants: in start order of the containers; empty where that scheduler allocated nothing.
    """

    grants: tuple[Grant, ...]
    terms: SharingTerms = ANY_TERMS


NO_ALLOCATION = AdoptedAllocation(())
"""The allocation of a pod whose amounts are all 0 for its scheduler, which chose no card."""


@dataclass(frozen=True, slots=True)
class HeldShare:
    """What the holders that have a part of one card leave no room for on it.

    Attributes:
        memory: bytes; all of the card where nothing of it is left for others.
        compute: percent; ``FULL`` where nothing of the card is left for others.
        whole: nothing of the card is left for others.
    """

    card: Card
    memory: int
    compute: int
    slots: int
    whole: bool


@dataclass(frozen=True, slots=True)
class QuotaUnit:
    """What one unit of a key of a ResourceQuota limits.

    Attributes:
        resource: of a ShareQuota.
        amount: bytes of memory, or percent of one card's compute.
    """

    resource: Literal["memory", "compute"]
    amount: int


class Dialect(ABC):
    """One dialect: each is a frozen dataclass that has the settings of its ecosystem.

    What has an answer here is the rule, and a dialect states the exception.

    Attributes:
        name: that requests and cards carry.
        result_keys: annotations and labels that only a scheduler may write.
        keeps_choice: whether the ecosystem's scheduler goes on counting the cards that it chose
            where the Binding brings others.
        frees_init_shares: whether the ecosystem's scheduler gives other pods what only init
            containers had, once these have finished.
    """

    __slots__ = ()

    name: ClassVar[str]
    result_keys: ClassVar[frozenset[str]]
    keeps_choice: ClassVar[bool] = False
    frees_init_shares: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def configured(cls, settings: Documents, defaults: Defaults) -> Self:
        """Create the dialect with the settings files of its ecosystem.

        Raises:
            DialectError: a settings file has an invalid value.
        """

    @property
    def companions(self) -> frozenset[str]:
        """Resources of other dialects that a pod may name too, without any effect there."""
        return frozenset()

    @property
    def shared_resources(self) -> frozenset[str]:
        """Resources that another dialect has too: in a pod that ``matches``, they are this one's.

        A companion must stand beside a resource of this dialect in its container, these need not.
        """
        return frozenset()

    @property
    def quota_units(self) -> Mapping[str, QuotaUnit | None]:
        """Keys of a ResourceQuota that the ecosystem's own scheduler enforces.

        None for a key that resembles them and that no component counts.
        """
        return {}

    @abstractmethod
    def matches(self, pod: Pod) -> bool:
        """Return whether the pod names a resource of this dialect, even with an amount of 0."""

    @abstractmethod
    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests.

        Of the pod's metadata and spec, name and uid become ``Request.pod`` and ``Request.uid``
        and nothing else depends on them, nor on the status.

        Raises:
            DialectError: the request is invalid, or out of scope.
        """

    def admission_defaults(self, pod: Pod, request: Request) -> AdmissionDefaults:  # noqa: ARG002
        """Return what the ecosystem's own webhook adds where the author sets nothing.

        Raises:
            DialectError: that webhook denies the pod.
        """
        return NO_DEFAULTS

    @abstractmethod
    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:
        """Read the cards of a node; invalid values become problems, never an exception."""

    @abstractmethod
    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return the extended resources that the ecosystem's own components publish for a node.

        By the name of the resource, and only those that schedulers and the kubelet count. Empty
        where the dialect describes none of the cards; cards that are not healthy do not count.
        """

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:  # noqa: ARG002
        """Return whether the node's device plugin finds the pod that it serves by a node's lock.

        The service must then hold the lock for this pod, and for no other one, while it binds it.
        """
        return False

    @abstractmethod
    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has this dialect's record of an allocation."""

    @abstractmethod
    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the record of an allocation; grants are in start order of the containers.

        A grant can name a card that the node does not have.

        Raises:
            DialectError: the record cannot be parsed.
        """

    @abstractmethod
    def read_adopted(self, pod: Pod, node: Node) -> AdoptedAllocation | None:
        """Read an allocation by the rules of the ecosystem's own scheduler, which bound the pod.

        For pods that ``read_request`` or ``read_result`` reject: the record then decides, and not
        what the pod requests. A grant can name a card that the node does not have.

        Returns:
            None where that scheduler allocated cards and no record names them.

        Raises:
            DialectError: the record cannot be parsed by these rules either.
        """

    @abstractmethod
    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> Result:
        """Write the record of a placement.

        Args:
            pod: the pod.
            request: what it requests.
            placement: the cards that it gets.
            node: the node of the placement.
            now: nanoseconds since 1970.
        """

    def write_mirror(self, pod: Pod, shares: Sequence[HeldShare]) -> Mapping[str, str]:  # noqa: ARG002
        """Write what a pod of another dialect has, as a record for the ecosystem's scheduler.

        It states at least what the shares leave no room for, so that this scheduler gives no part
        of them to its own pods. Empty where the dialect describes none of the cards, or where its
        scheduler counts no record of other pods.

        Args:
            pod: bound, or about to be.
            shares: of cards of one node, each once.

        Returns:
            annotations, by key.
        """
        return {}
