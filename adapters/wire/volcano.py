"""The JSON of vc-scheduler's extender plugin: of whole tasks and nodes, only the fields needed.

Source: volcano-sh/volcano pkg/scheduler/plugins/extender/{extender,argument}.go, and
pkg/scheduler/api/{job_info,node_info}.go, whose structs carry no json tags.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec
import orjson

from adapters.wire import body
from adapters.wire.body import ABSENT, BodyError, Item
from adapters.wire.decode.decoder import Decoder, Int64
from adapters.wire.kube import Pod, Wire


class StatusCode(IntEnum):
    """The answer of predicate. Source: pkg/scheduler/api/types.go."""

    SUCCESS = 0
    UNSCHEDULABLE = 2
    """The node does not fit now; preemption may help."""
    UNRESOLVABLE = 3
    """The node does not fit; preemption cannot help."""


class PredicateStatus(IntEnum):
    """The states of a task that events report. Source: pkg/scheduler/api/types.go."""

    PENDING = 1
    ALLOCATED = 2
    PIPELINED = 4
    RUNNING = 32
    RELEASING = 64


class Vote(IntEnum):
    """The answer of preemptable and reclaimable. Source: pkg/scheduler/plugins/util/util.go."""

    PERMIT = 1
    ABSTAIN = 0
    REJECT = -1


class Task(Item, frozen=True, gc=False, rename="pascal"):
    """A TaskInfo; its uid is the pod's, and the pod stays encoded."""

    uid: str = msgspec.field(default="", name="UID")
    name: str = ""
    namespace: str = ""
    node_name: str = ""
    status: Int64 = 0
    pod: msgspec.Raw = ABSENT


class TaskNode(Item, frozen=True, gc=False, rename="pascal"):
    """A NodeInfo."""

    name: str = ""


class Predicate(msgspec.Struct, frozen=True, gc=False):
    """Arguments of predicate: one task and one node."""

    task: Task
    node: TaskNode


class Prioritize(msgspec.Struct, frozen=True, gc=False):
    """Arguments of prioritize: one task and all nodes that passed."""

    task: Task
    nodes: list[TaskNode] | None


class AllocateEvent(msgspec.Struct, frozen=True, gc=False):
    """Arguments of allocate and deallocate."""

    task: Task


class Eviction(msgspec.Struct, frozen=True, gc=False):
    """Arguments of preemptable and reclaimable."""

    evictor: Task
    evictees: list[Task] | None


class _Evictees(msgspec.Struct, frozen=True, gc=False):
    """The candidates for eviction, still encoded."""

    evictees: list[msgspec.Raw] | None


class _UidAlone(Wire, frozen=True, gc=False):
    uid: str = ""


class _PodUid(Wire, frozen=True, gc=False):
    metadata: _UidAlone = _UidAlone()


_PREDICATE = Decoder(Predicate)
_PRIORITIZE = Decoder(Prioritize)
_EVENT = Decoder(AllocateEvent)
_EVICTION = Decoder(Eviction)
_EVICTEES = Decoder(_Evictees)
_POD_UID: Decoder[_PodUid | None] = Decoder(_PodUid | None)


def pod_of(task: Task) -> Pod:
    """Return the pod of a task.

    Raises:
        BodyError: it is missing, or its uid is not the task's.
    """
    pod = body.read_pod(task.pod, "task.Pod")
    if pod is None:
        raise BodyError("task.Pod is missing")
    if not pod.metadata.uid:
        raise BodyError("task.Pod.metadata.uid is missing")
    if task.uid not in ("", pod.metadata.uid):
        raise BodyError(f"task.UID {task.uid} is not that of its Pod, {pod.metadata.uid}")
    return pod


def uid_of(task: Task) -> str:
    """Return the uid of a task's pod; empty where it has none.

    Raises:
        BodyError: the pod cannot be read.
    """
    if task.uid:
        return task.uid
    pod = body.read(bytes(task.pod), _POD_UID)
    return "" if pod is None else pod.metadata.uid


def read_predicate(content: bytes) -> Predicate:
    """Return the arguments of predicate.

    Raises:
        BodyError: they cannot be read, or name no node.
    """
    args = body.read_lists(content, _PREDICATE)
    if not args.node.name:
        raise BodyError("node.Name is missing")
    return args


def read_prioritize(content: bytes) -> Prioritize:
    """Return the arguments of prioritize.

    Raises:
        BodyError: they cannot be read, or a node has no name.
    """
    args = body.read_lists(content, _PRIORITIZE)
    if not all(node.name for node in args.nodes or ()):
        raise BodyError("the Name of one of the nodes is missing")
    return args


def read_event(content: bytes) -> Task:
    """Return the task of an allocate or deallocate event.

    Raises:
        BodyError: it cannot be read, or is on no node.
    """
    task = body.read_lists(content, _EVENT).task
    if not task.node_name:
        raise BodyError("task.NodeName is missing")
    return task


def read_eviction(content: bytes) -> tuple[Task, list[tuple[Task, msgspec.Raw]]]:
    """Return the preemptor, and the candidates for eviction, each decoded and as it came.

    Raises:
        BodyError: something cannot be read.
    """
    args = body.read_lists(content, _EVICTION)
    raws = body.read(content, _EVICTEES).evictees or []
    return args.evictor, [*zip(args.evictees or (), raws, strict=True)]


FITS = orjson.dumps({"status": "", "code": int(StatusCode.SUCCESS)})
"""The answer of predicate for a node that the task fits."""


def predicate_result(code: StatusCode, text: str) -> bytes:
    """Return the answer of predicate where the task does not fit; an empty text means a fit."""
    return orjson.dumps({"status": text, "code": int(code)})


def prioritize_result(scores: Mapping[str, int], error: str = "") -> bytes:
    """Return the answer of prioritize."""
    return orjson.dumps({"nodeScore": scores, "errorMessage": error})


def event_result(error: str = "") -> bytes:
    """Return the answer of an event; with a text the scheduler undoes the allocation."""
    return orjson.dumps({"errorMessage": error})


def eviction_result(vote: Vote, victims: Sequence[msgspec.Raw] = ()) -> bytes:
    """Return the answer of preemptable and reclaimable; victims go back unchanged."""
    return msgspec.json.encode({"status": int(vote), "victims": list(victims)})
