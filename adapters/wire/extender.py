"""kube-scheduler's extender JSON: its arguments and the answers.

Source: k8s.io/kube-scheduler/extender/v1/types.go. Its structs carry no json tags, so the keys are
the Go field names, capitals included; as Go does, keys are read in any case. Pods and nodes inside
are ordinary Kubernetes JSON.

A filter names every node of the cluster, in another order each time: the one in which goroutines
have come to them. Source: kubernetes 1.37.1 pkg/scheduler/schedule_one.go,
findNodesThatPassFilters.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import TypeVar

import msgspec
import numpy as np
import orjson

from adapters.wire import body
from adapters.wire.body import ABSENT, MOST_ITEMS, BodyError, Item
from adapters.wire.decode.decoder import Decoder, Int64, UnreadableError
from adapters.wire.kube import Pod, Wire
from core.feasibility.columns import Numbers
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

    So they can be joined to JSON without looking at each.

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
        whole: the body, where it has the nodes in full; None where it has their names alone.
    """

    pod: Pod
    names: NodeNames
    whole: bytes | None = None

    def encoded_nodes(self) -> list[msgspec.Raw]:
        """Return each node as it came, as JSON, where the body has them in full."""
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
        proposals: by node, what the scheduler would evict; it may be no pod.
    """

    pod: Pod
    proposals: Mapping[str, Proposal]


_ARGS = Decoder(_Args)
_ENCODED_NODES = Decoder(_EncodedNodes)
_BINDING = Decoder(BindingArgs)
_PREEMPTION = Decoder(_PreemptionArgs)
_KEYS = Decoder(dict[str, msgspec.Raw])


def read_args(content: bytes) -> ExtenderArgs:
    """Return the arguments of filter and prioritize.

    The body is decoded once, a second time where its keys are not written as Go writes them. Pod
    and names stay encoded until then.

    Raises:
        BodyError: they cannot be read, have no pod, or neither form of nodes.
    """
    args = body.read_lists(content, _ARGS)
    if args.pod == ABSENT or (args.nodes is None and args.node_names == ABSENT):
        content = _any_case(content, _Args)
        args = body.read_lists(content, _ARGS)
    pod = body.read_pod(args.pod, "Pod")
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
    """Return the arguments of bind.

    Raises:
        BodyError: they cannot be read, or a field is missing.
    """
    args = body.read(content, _BINDING)
    if not all(msgspec.structs.astuple(args)):
        args = body.read(_any_case(content, BindingArgs), _BINDING)
    fields = zip(BindingArgs.__struct_encode_fields__, msgspec.structs.astuple(args), strict=True)
    missing = next((name for name, value in fields if not value), None)
    if missing is not None:
        raise BodyError(f"{missing} is missing")
    return args


def read_preemption(content: bytes) -> PreemptionArgs:
    """Return the arguments of preempt; of a node in both of their forms, only the uids count.

    Raises:
        BodyError: they cannot be read, or the pod is missing.
    """
    if content.count(b"null") > MOST_ITEMS:  # nodes without victims are no items
        raise BodyError(f"more than {MOST_ITEMS} items")
    args = body.read_lists(content, _PREEMPTION)
    if args.pod == ABSENT:
        args = body.read_lists(_any_case(content, _PreemptionArgs), _PREEMPTION)
    pod = body.read_pod(args.pod, "Pod")
    if pod is None:
        raise BodyError("Pod is missing")
    proposals: dict[str, Proposal] = {}
    for node, full in (args.node_name_to_victims or {}).items():
        victims = full or Victims()
        uids = [victim.metadata.uid for victim in victims.pods or ()]
        proposals[node] = (uids, victims.num_pdb_violations)
    for node, by_uid in (args.node_name_to_meta_victims or {}).items():
        meta = by_uid or MetaVictims()
        proposals[node] = ([victim.uid for victim in meta.pods or ()], meta.num_pdb_violations)
    return PreemptionArgs(pod, proposals)


def _any_case(content: bytes, struct: type[msgspec.Struct]) -> bytes:
    """Return an object with the keys that a struct reads, whatever their case was."""
    names = {name.lower(): name for name in struct.__struct_encode_fields__}
    fields = body.read(content, _KEYS)
    return msgspec.json.encode({names.get(key.lower(), key): v for key, v in fields.items()})


MAX_SCORE = 10
"""Scores are whole numbers from 0 to this. Source: MaxExtenderPriority, same file."""

ALL_SCORED = 100
"""Nodes up to which an answer has every score.

A scheduler adds 0 for a node that an extender does not name, and takes longer to decode a thousand
scores than the service to compute them. Where all are 0, they are all named, because kube-scheduler
breaks ties at random among named nodes only. Source: kubernetes 1.35.2 and 1.37.1
pkg/scheduler/schedule_one.go, prioritizeNodes.
"""

_HOST = '{"Host":"'

_SCORED = [f'","Score":{score}}},{_HOST}' for score in range(MAX_SCORE + 1)]
"""What follows a name, by score: the end of its object, and the beginning of the next."""

NO_NODES = b"null"
"""An object of nodes that has none."""


def filter_names(
    fitting: bytes, failed: bytes = NO_NODES, unresolvable: bytes = NO_NODES, error: str = ""
) -> bytes:
    """Return the answer of filter where the question has names.

    Args:
        fitting: the nodes that fit, as a JSON array.
        failed: by node, why others do not, where preemption may help; as ``node_texts`` returns it.
        unresolvable: by node, why others do not, where preemption cannot help; likewise.
        error: why there is no answer.
    """
    return orjson.dumps(
        {
            "Nodes": None,
            "NodeNames": None if error else orjson.Fragment(fitting),
            "FailedNodes": orjson.Fragment(failed),
            "FailedAndUnresolvableNodes": orjson.Fragment(unresolvable),
            "Error": error,
        }
    )


def filter_nodes(
    fitting: Sequence[msgspec.Raw], failed: bytes = NO_NODES, unresolvable: bytes = NO_NODES
) -> bytes:
    """Return the answer of filter where the question has whole nodes: those that fit, unchanged."""
    return msgspec.json.encode(
        {
            "Nodes": {"metadata": {}, "items": fitting},
            "NodeNames": None,
            "FailedNodes": msgspec.Raw(failed),
            "FailedAndUnresolvableNodes": msgspec.Raw(unresolvable),
            "Error": "",
        }
    )


def node_texts(names: Sequence[str], texts: Sequence[str], of_node: Iterable[int]) -> bytes:
    """Return a text for each node as JSON, joined from few texts.

    Objects take several times as long.

    Args:
        names: of the nodes, as ``plain_names`` checks them: JSON escapes nothing in them.
        texts: that the nodes have.
        of_node: for each name, the position of its text.
    """
    if not names:
        return NO_NODES
    after = [f'":{orjson.dumps(text).decode()},"' for text in texts]
    items = zip(names, map(after.__getitem__, of_node), strict=True)
    text = "".join(chain.from_iterable(items))
    return f'{{"{text[:-2]}}}'.encode()


def priorities(names: NodeNames, scores: Numbers) -> bytes:
    """Return the answer of prioritize, joined as text in half the time of encoding objects.

    Args:
        names: of the nodes, as ``plain_names`` checks them.
        scores: of each, from 0 to ``MAX_SCORE``. A long answer leaves out the nodes with 0 where
            they are most nodes, and not all.
    """
    hosts = names.names
    if len(hosts) > ALL_SCORED and 0 < 2 * np.count_nonzero(scores) < len(hosts):
        scored = scores > 0
        hosts, scores = tuple(compress(hosts, scored.tobytes())), scores[scored]
    items = zip(hosts, map(_SCORED.__getitem__, scores.tolist()), strict=True)
    text = _HOST + "".join(chain.from_iterable(items))
    return f"[{text[: -len(_HOST) - 1]}]".encode()


def binding_result(error: str = "") -> bytes:
    """Return the answer of bind; an error keeps the pod unbound."""
    return orjson.dumps({"Error": error})


def preemption_result(proposals: Mapping[str, Proposal]) -> bytes:
    """Return the answer of preempt: what to evict, by node."""
    return orjson.dumps(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": broken}
                for node, (uids, broken) in proposals.items()
            }
        }
    )
