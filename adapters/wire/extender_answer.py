"""The answers to kube-scheduler's extender JSON.

Source: k8s.io/kube-scheduler/extender/v1/types.go. Its structs carry no json tags, so the keys are
the Go field names, capitals included.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress

import msgspec
import numpy as np
import orjson

from adapters.wire.extender import Proposal
from core.feasibility.columns import Numbers
from core.feasibility.inventory import NodeNames

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
    """The answer of filter where the question has names.

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
    """The answer of filter where the question has whole nodes: those that fit, unchanged."""
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
    """A text for each node as JSON, joined from few texts: objects take several times as long.

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
    """The answer of prioritize, joined as text, which takes half the time of encoding objects.

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
    """The answer of bind; an error keeps the pod unbound."""
    return orjson.dumps({"Error": error})


def preemption_result(proposals: Mapping[str, Proposal]) -> bytes:
    """The answer of preempt: what to evict, by node."""
    return orjson.dumps(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": broken}
                for node, (uids, broken) in proposals.items()
            }
        }
    )
