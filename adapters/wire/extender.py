"""The arguments of kube-scheduler's extender JSON; ``extender_answer`` writes the answers.

Source: k8s.io/kube-scheduler/extender/v1/types.go. Its structs carry no json tags, so the keys are
the Go field names, capitals included; as Go does, keys are read in any case. Pods and nodes inside
are ordinary Kubernetes JSON.

A filter names every node of the cluster, in another order each time: the one in which goroutines
have come to them. Source: kubernetes 1.37.1 pkg/scheduler/schedule_one.go,
findNodesThatPassFilters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from adapters.wire import bounded
from adapters.wire.bounded import ABSENT, MOST_ITEMS, Item
from adapters.wire.decode import body
from adapters.wire.decode.body import BodyError
from adapters.wire.decode.decoder import Decoder, Int64, UnreadableError
from adapters.wire.kube import Pod, Wire
from core.feasibility.inventory import NodeNames

LONGEST_NAMES = 32 << 20
"""Bytes of an array of node names; 100,000 of the longest ones have 26 MB."""

_NAMES = Decoder(tuple[str, ...])

_PLAIN = bytes(code for code in range(0x20, 0x7F) if code not in b'"\\')
"""Printable ASCII that JSON does not escape."""


def read_names(array: bytes) -> NodeNames:
    """Return the names of a JSON array.

    Raises:
        BodyError: it is no array of texts, is too long, or one of them is not plain.
    """
    if array.count(b",") >= MOST_ITEMS or len(array) > LONGEST_NAMES:
        raise BodyError(f"NodeNames has more than {MOST_ITEMS} names or {LONGEST_NAMES} bytes")
    try:
        names = _NAMES.decode(array)
    except UnreadableError as error:
        raise BodyError(f"NodeNames cannot be read: {error}") from error
    return plain_names(names)


def plain_names(names: Sequence[str]) -> NodeNames:
    """Return names without a character that JSON escapes or that is not ASCII (RFC 1123).

    So they can be joined to JSON without looking at each (``extender_answer``).

    Raises:
        BodyError: one of them has such a character.
    """
    if not _is_plain("".join(names)):
        at, name = next((at, name) for at, name in enumerate(names) if not _is_plain(name))
        raise BodyError(f"NodeNames[{at}]: {name!r} cannot be a node's name")
    return NodeNames(names)


def _is_plain(text: str) -> bool:
    return not text.encode().translate(None, _PLAIN)


T = TypeVar("T", bound=msgspec.Struct)


class GoArgs(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """The base of all arguments; unknown fields are ignored."""


class _Name(Wire, frozen=True, gc=False):
    name: str = ""


class _NamedItem(Item, frozen=True, gc=False):
    metadata: _Name = _Name()


class _NodeNames(Wire, frozen=True, gc=False):
    """A NodeList of which the names are read."""

    items: list[_NamedItem] | None = None


class _NodeItems(Wire, frozen=True, gc=False):
    """A NodeList whose nodes stay encoded."""

    items: list[msgspec.Raw] | None = None


class _Args(GoArgs, frozen=True, gc=False):
    pod: msgspec.Raw = ABSENT
    nodes: _NodeNames | None = None
    node_names: msgspec.Raw = ABSENT


class _EncodedNodes(GoArgs, frozen=True, gc=False):
    nodes: _NodeItems


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """The arguments of filter and prioritize: a pod, and its nodes in one of two forms.

    Attributes:
        pod: that is to be placed.
        names: of the nodes.
        whole: the body, where it has the nodes in full; None where it has their names alone.
    """

    pod: Pod
    names: NodeNames
    whole: bytes | None = None

    def encoded_nodes(self) -> list[msgspec.Raw]:
        """Each node as it came, as JSON, where the body has them in full."""
        return body.read(self.whole or b"", _ENCODED_NODES).nodes.items or []


class BindingArgs(GoArgs, frozen=True, gc=False):
    """Arguments of bind."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = msgspec.field(default="", name="PodUID")
    node: str = ""


class MetaPod(Item, frozen=True, gc=False, rename="pascal"):
    """A pod that only its uid names."""

    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(Item, frozen=True, gc=False, rename="pascal"):
    """The victims that the scheduler proposes on one node, by uid."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: Int64 = msgspec.field(default=0, name="NumPDBViolations")


class _Uid(Wire, frozen=True, gc=False):
    uid: str = ""


class VictimPod(Item, frozen=True, gc=False):
    """A pod of which only the uid is read."""

    metadata: _Uid = _Uid()


class Victims(Item, frozen=True, gc=False, rename="pascal"):
    """The victims that the scheduler proposes on one node, in full."""

    pods: list[VictimPod] | None = None
    num_pdb_violations: Int64 = msgspec.field(default=0, name="NumPDBViolations")


class _PreemptionArgs(GoArgs, frozen=True, gc=False):
    pod: msgspec.Raw = ABSENT
    node_name_to_victims: dict[str, Victims | None] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


Proposal = tuple[Sequence[str], int]
"""Uids of pods to evict from a node, the highest priority first, and how many budgets that breaks.

kube-scheduler compares nodes by the first. Source: kubernetes 1.37.1
pkg/scheduler/framework/preemption/preemption.go, pickOneNodeForPreemption.
"""


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """Arguments of preempt.

    Attributes:
        pod: the pod that is to fit.
        proposals: by node, what the scheduler would evict; it may be no pod.
    """

    pod: Pod
    proposals: Mapping[str, Proposal]


_ARGS = Decoder(_Args)
_ENCODED_NODES = Decoder(_EncodedNodes)
_BINDING = Decoder(BindingArgs)
_PREEMPTION = Decoder(_PreemptionArgs)
_KEYS = Decoder(dict[str, msgspec.Raw])
_ANY = Decoder(object)


def read_args(content: bytes) -> ExtenderArgs:
    """The arguments of filter and prioritize.

    The body is decoded once, a second time where its keys are not written as Go writes them. Pod
    and names stay encoded until then.

    Raises:
        BodyError: they cannot be read, have no pod, or neither form of nodes.
    """
    args = bounded.read(content, _ARGS)
    if args.pod == ABSENT or (args.nodes is None and args.node_names == ABSENT):
        content = _any_case(content, _Args)
        args = bounded.read(content, _ARGS)
    pod = bounded.read_pod(args.pod, "Pod")
    if pod is None:
        raise BodyError("Pod is missing")
    if args.node_names != ABSENT:
        return ExtenderArgs(pod, read_names(bytes(args.node_names)))
    if args.nodes is None:
        raise BodyError("both NodeNames and Nodes are missing")
    names = [node.metadata.name for node in args.nodes.items or ()]
    if not all(names):
        raise BodyError(f"Nodes.items[{names.index('')}].metadata.name is missing")
    return ExtenderArgs(pod, plain_names(names), content)


def read_binding(content: bytes) -> BindingArgs:
    """The arguments of bind.

    Raises:
        BodyError: they cannot be read, or a field is missing.
    """
    args = body.read(content, _BINDING)
    if not all(_binding_fields(args).values()):
        args = body.read(_any_case(content, BindingArgs), _BINDING)
    missing = [name for name, value in _binding_fields(args).items() if not value]
    if missing:
        raise BodyError(f"{missing[0]} is missing")
    return args


def read_preemption(content: bytes) -> PreemptionArgs:
    """The arguments of preempt.

    Raises:
        BodyError: they cannot be read, or the pod is missing.
    """
    if content.count(b"null") > MOST_ITEMS:  # nodes without victims are no items
        raise BodyError(f"more than {MOST_ITEMS} items")
    args = bounded.read(content, _PREEMPTION)
    if args.pod == ABSENT:
        args = bounded.read(_any_case(content, _PreemptionArgs), _PREEMPTION)
    pod = bounded.read_pod(args.pod, "Pod")
    if pod is None:
        raise BodyError("Pod is missing")
    return PreemptionArgs(pod, _proposals(args))


def _binding_fields(args: BindingArgs) -> dict[str, str]:
    return {
        "PodName": args.pod_name,
        "PodNamespace": args.pod_namespace,
        "PodUID": args.pod_uid,
        "Node": args.node,
    }


def _proposals(args: _PreemptionArgs) -> dict[str, Proposal]:
    """Both forms in one; of a node that is in both, only the uids count."""
    proposals: dict[str, Proposal] = {}
    for node, full in (args.node_name_to_victims or {}).items():
        victims = full or Victims()
        uids = [pod.metadata.uid for pod in victims.pods or ()]
        proposals[node] = (uids, victims.num_pdb_violations)
    for node, by_uid in (args.node_name_to_meta_victims or {}).items():
        meta = by_uid or MetaVictims()
        proposals[node] = ([pod.uid for pod in meta.pods or ()], meta.num_pdb_violations)
    return proposals


def _any_case(content: bytes, struct: type[msgspec.Struct]) -> bytes:
    """Return an object with the keys that a struct reads, whatever their case was."""
    names = {name.lower(): name for name in struct.__struct_encode_fields__}
    fields = body.read(content, _KEYS)
    return msgspec.json.encode({names.get(key.lower(), key): v for key, v in fields.items()})
