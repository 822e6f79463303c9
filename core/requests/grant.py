"""Grants, placements and allocations: what a pod gets."""

from dataclasses import dataclass
from enum import Enum

from core.hardware.mig import Slice
from core.requests.request import ANY_TERMS, Phase, PodRef, Request, SharingTerms
from core.value import value


@value(frozen=True, slots=True)
class Grant:
    """A share of one card for one container.

    Attributes:
        container: the container's name; empty for a share that all containers of the pod see
            (where a record does not name containers).
        card: uuid of the card.
        memory: bytes; for a slice, the slice's.
        compute: percent of the card; for a slice, the slice's.
        exclusive: no other pod may have a share of the card.
        slice: the MIG slice, on a card in MIG mode.
    """

    container: str
    card: str
    memory: int
    compute: int
    exclusive: bool = False
    phase: Phase = Phase.MAIN
    slice: Slice | None = None


KUBELET = "kubelet"
"""The dialect of an allocation whose cards a device plugin and the kubelet choose."""

KUBELET_CHOOSES = "the kubelet chooses its cards, and has not said yet which"
"""Why the cards of such an allocation are not known before the node's agent reports them."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The node and the cards that fit a request; nothing is allocated yet.

    Attributes:
        grants: in the order of the request's containers, and for each in the order in which it
            sees its cards. Empty where the pod gets no card of the ledger, because a device plugin
            serves it.
        blocked: uuids of the cards of which the kubelet chooses the pod's.
    """

    node: str
    grants: tuple[Grant, ...]
    blocked: frozenset[str] = frozenset()


class AllocationState(Enum):
    """Whether the store has an allocation."""

    RESERVED = "held"
    """Only this process knows it, and it expires. Stored records have none."""
    COMMITTED = "committed"
    """The ledger's record in the store has it."""


@value(frozen=True, slots=True)
class Allocation:
    """A pod's grants on one node.

    Attributes:
        pod: ``namespace/name``, for people.
        grants: in start order of the containers.
        expires: when a reservation expires, in the caller's clock; None for never.
        unread: why its record cannot be read; None where it can. It then has all of ``blocked``.
        blocked: uuids of cards of which it may have any part, so that no other pod gets any.
        attempt: the ledger's version when the newest attempt to bind its pod began; 0 where there
            was none.
        release_by: None while the pod exists. Once the pod was deleted past its kubelet: seconds
            since 1970 at which its cards are free even if no agent has reported that its
            containers have stopped.
        initialized: its init containers have finished, so that what only they had of a card
            counts no more. Their slices stay the pod's.
        devices: identifies what a scheduler allocated to a ResourceClaim; empty where it is not
            certain for which allocation of the claim this is, and for a pod.
    """

    uid: str
    pod: str
    dialect: str
    node: str
    grants: tuple[Grant, ...]
    terms: SharingTerms = ANY_TERMS
    priority: int = 0
    state: AllocationState = AllocationState.COMMITTED
    expires: int | None = None
    unread: str | None = None
    blocked: frozenset[str] = frozenset()
    attempt: int = 0
    release_by: int | None = None
    devices: str = ""
    initialized: bool = False

    @property
    def pod_ref(self) -> PodRef:
        """The pod that holds it."""
        return PodRef.parse(self.pod, self.uid)

    def counts(self, grant: Grant) -> bool:
        """Return whether one of its grants is in use, or may be."""
        return not self.initialized or grant.phase is not Phase.INIT or grant.slice is not None

    @property
    def cards(self) -> frozenset[str]:
        """The uuids of all cards of which it has, or may have, a part."""
        return self.blocked.union(grant.card for grant in self.grants)

    @classmethod
    def of(cls, request: Request, placement: Placement) -> "Allocation":
        """Return the allocation of a placement to a request."""
        return cls(
            uid=request.uid,
            pod=request.pod,
            dialect=KUBELET if placement.blocked else request.dialect,
            node=placement.node,
            grants=placement.grants,
            terms=request.terms,
            priority=request.priority,
            unread=KUBELET_CHOOSES if placement.blocked else None,
            blocked=placement.blocked,
        )
