"""The object ``MovePlan``: pods that are to be moved, and in its status how far that is.

``configs/crd/moveplans.yaml`` defines it. Its spec never changes. The service and the mover act
by turns on what the status says, and each write of it is a compare-and-swap.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import msgspec

from adapters.wire.decode.decoder import Decoder, Int64, UnreadableError
from adapters.wire.kube import Metadata, Wire
from adapters.wire.records.allocation import GrantRecord

KIND = "MovePlan"
API_VERSION = "dragoman.dev/v1alpha1"

MOST_MOVES = 512
"""A step writes the whole object again: more moves, and the store of the cluster fills up."""
MOST_TARGETS = 1024

_LONGEST_REASON = 1024
_LONGEST_TIME = 64
_LONGEST_MOVER = 320

# Source: k8s.io/apimachinery/pkg/util/validation/validation.go, IsDNS1123Subdomain.
Name = Annotated[str, msgspec.Meta(max_length=253, pattern=r"\A[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")]
"""A name of an object, as it may stand in a path."""

Uid = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]

Step = Annotated[int, msgspec.Meta(ge=0, le=MOST_MOVES)]
"""Number of a move, from 1; 0 before the first."""

Time = Annotated[str, msgspec.Meta(max_length=_LONGEST_TIME)]
"""RFC 3339, UTC, whole seconds."""


class MovePlanRecordError(ValueError):
    """A MovePlan that cannot be used: which part, and why."""


class MovePhase(Enum):
    """What comes next in a plan, and who does it."""

    NEW = ""
    """The service checks the plan and holds its places."""
    WAITING = "Waiting"
    """New, and waits for its turn or for what ``reason`` says."""
    HELD = "Held"
    """The mover asks whether every pod of the plan could be evicted."""
    READY = "Ready"
    """The service checks and orders the next step."""
    EVICT = "Evict"
    """The mover evicts the pod of ``step``."""
    EVICTED = "Evicted"
    """The service waits until the pod of ``step`` is ready at its new place."""
    PLACING = "Placing"
    """The service waits until what the moves were for has its cards."""
    FINISHED = "Finished"
    """All is done; no place is held any more."""
    STOPPED = "Stopped"
    """The plan was given up for ``reason``; no place is held any more."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing comes next."""
        return self in (MovePhase.FINISHED, MovePhase.STOPPED)


class TargetKind(Enum):
    """What moves are for."""

    POD = "Pod"
    NODE = "Node"
    SHARE = "Share"


class MoveController(Wire, frozen=True, gc=False):
    """The owner of a pod that creates it again: its owner reference with ``controller: true``."""

    kind: str
    name: str
    uid: Uid


class MovePlace(Wire, frozen=True, gc=False):
    """A node, and what a pod has or is to have there."""

    node: Name
    grants: tuple[GrantRecord, ...]


class PlannedMove(Wire, frozen=True, gc=False, omit_defaults=True):
    """A pod that is to be evicted, and the place that its successor is to have.

    Attributes:
        started: when its containers started, RFC 3339; empty where unknown.
        cost: of moving it, in the unit of the plan's search.
    """

    namespace: Name
    pod: Name
    uid: Uid
    dialect: str
    controller: MoveController
    from_: MovePlace = msgspec.field(name="from")
    to: MovePlace
    priority: Int64 = 0
    started: Time = ""
    cost: Int64 = 0


class PlannedTarget(Wire, frozen=True, gc=False, omit_defaults=True):
    """What gets its place when enough pods have moved.

    Attributes:
        namespace: of a pod, empty of the others.
        name: of the pod or node; of a share, words for people.
        after_step: number of the move after which it has its place, 0 where it has it at once.
        place: None for a node, which is to be empty.
    """

    kind: TargetKind
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    after_step: Step
    namespace: str = ""
    uid: str = ""
    place: MovePlace | None = None


class MovePlanSpec(Wire, frozen=True, gc=False):
    """What the operator writes.

    Attributes:
        moves: in the order in which they are to be carried out.
        pod_seconds: within which a moved pod must be ready again.
    """

    moves: Annotated[tuple[PlannedMove, ...], msgspec.Meta(max_length=MOST_MOVES)]
    targets: Annotated[tuple[PlannedTarget, ...], msgspec.Meta(max_length=MOST_TARGETS)] = ()
    pod_seconds: Annotated[int, msgspec.Meta(ge=10, le=86400)] = 600


class MoveStep(Wire, frozen=True, gc=False, omit_defaults=True):
    """What became of a move that was begun.

    Attributes:
        evicted_at: when its pod was evicted, or was found gone; empty before.
        begun_at: when ``mover`` wrote that it is about to evict the pod; empty before.
        mover: the process that evicts the pod; no other one does for a minute.
        replacement: name of the pod that came in its place; empty before.
        ready_at: when that pod was ready; empty before.
        skipped: whether there was nothing to move any more.
    """

    step: Annotated[int, msgspec.Meta(ge=1, le=MOST_MOVES)]
    evicted_at: Time = ""
    begun_at: Time = ""
    mover: Annotated[str, msgspec.Meta(max_length=_LONGEST_MOVER)] = ""
    replacement: str = ""
    ready_at: Time = ""
    skipped: bool = False


class MovePlanStatus(Wire, frozen=True, gc=False):
    """What the service and the mover write, by turns.

    Attributes:
        step: the move that is being done.
        reason: why the plan stopped, or what it waits for.
        updated_at: when either wrote last.
        steps: one for each move that was begun, in order.
        moves: how many the plan has, for people; ``status_patch`` counts them.
    """

    phase: MovePhase = MovePhase.NEW
    step: Step = 0
    reason: str = ""
    updated_at: Time = ""
    steps: Annotated[tuple[MoveStep, ...], msgspec.Meta(max_length=MOST_MOVES)] = ()
    moves: Int64 = 0


class MovePlanMetadata(Metadata, frozen=True, gc=False):
    """Metadata with the time of creation, by which plans take turns."""

    creation_timestamp: str = ""


class MovePlanObject(Wire, frozen=True, gc=False):
    """A MovePlan with its spec and status still encoded."""

    metadata: MovePlanMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan in one version.

    Attributes:
        thing: the object.
        spec: of the object.
        status: of the object.
        seen: monotonic seconds when the mover first saw this version; 0 for the service.
    """

    thing: MovePlanObject
    spec: MovePlanSpec
    status: MovePlanStatus
    seen: float = 0.0

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.thing.metadata.name

    @property
    def uid(self) -> str:
        """The uid of the object."""
        return self.thing.metadata.uid


class _Counted(Wire, frozen=True, gc=False):
    moves: tuple[msgspec.Raw, ...] = ()


_SPEC = Decoder(MovePlanSpec)
_STATUS = Decoder(MovePlanStatus)
_COUNTED = Decoder(_Counted)


def read_spec(plan: MovePlanObject) -> MovePlanSpec:
    """Return the spec of a plan.

    Raises:
        MovePlanRecordError: it cannot be read, or contradicts itself.
    """
    name = plan.metadata.name
    try:
        spec = _SPEC.decode(plan.spec)
    except UnreadableError as error:
        raise MovePlanRecordError(f"MovePlan {name}: spec cannot be read: {error}") from error
    uids = [move.uid for move in spec.moves]
    for number, uid in enumerate(uids):
        if uid in uids[:number]:
            problem = f"spec.moves[{number}].uid: {uid!r}: a plan moves each pod once"
            raise MovePlanRecordError(f"MovePlan {name}: {problem}")
    for number, target in enumerate(spec.targets):
        problem = _problem(target, len(uids))
        if problem:
            raise MovePlanRecordError(f"MovePlan {name}: spec.targets[{number}].{problem}")
    return spec


def _problem(target: PlannedTarget, moves: int) -> str:
    """Return what of a target contradicts the rest of it, or the plan; empty where nothing does."""
    if target.after_step > moves:
        return f"afterStep: {target.after_step}: must be at most {moves}, the last move"
    if target.place is None and target.kind is not TargetKind.NODE:
        return "place: missing; only a node that is to be empty has none"
    if target.uid and not target.namespace:
        return f"namespace: missing; it is that of pod {target.name}"
    return ""


def read_status(plan: MovePlanObject) -> MovePlanStatus:
    """Return the status of a plan; that of one without any is new.

    Raises:
        MovePlanRecordError: it cannot be read, such as one of an unknown phase.
    """
    try:
        return _STATUS.decode(plan.status)
    except UnreadableError as error:
        problem = f"MovePlan {plan.metadata.name}: status cannot be read: {error}"
        raise MovePlanRecordError(problem) from error


def status_patch(plan: MovePlanObject, status: MovePlanStatus) -> bytes:
    """Return the merge patch that replaces the status if the plan is still as it was read."""
    reason = status.reason.encode()[:_LONGEST_REASON].decode(errors="ignore")
    try:
        moves = len(_COUNTED.decode(plan.spec).moves)
    except UnreadableError:
        moves = 0
    written = msgspec.structs.replace(status, reason=reason, moves=moves)
    version = {"resourceVersion": plan.metadata.resource_version}
    return msgspec.json.encode({"metadata": version, "status": written})
