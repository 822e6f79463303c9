"""Advice about labels that a pod asks for and no node has: probably misspelled.

A node selector or a required affinity with a typing error leaves a pod waiting for ever, and its
scheduler only says that no node matches.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from adapters.accounting.answer.node_rules import required_affinity, tolerated
from adapters.wire.kube import KubeNode, Pod, SelectorRequirement, Taint, labels

MOST = 8
"""Sentences about one pod, at most."""

VALUES = 1000
"""Values of one label that are compared; a label of the host's name has one for each node."""

CLOSE = 0.75
"""How alike two words are; 1 for the same."""


class NodeLabels:
    """The labels and taints of all nodes.

    Attributes:
        values: by key of a label, its values, ``VALUES`` at most; one is enough to know the key.
        taints: that keep pods away, each once.
    """

    def __init__(self) -> None:
        self.values: dict[str, dict[str, None]] = {}
        self.taints: dict[Taint, None] = {}

    def add(self, node: KubeNode) -> None:
        """Know the labels and taints of one more node."""
        for key, value in labels(node).items():
            known = self.values.setdefault(key, {})
            if len(known) < VALUES:
                known[value] = None
        for taint in node.spec.taints or ():
            self.taints[taint] = None


def label_advice(pod: Pod, known: NodeLabels) -> tuple[str, ...]:
    """Warnings for the author of a pod, as sentences, ``MOST`` at most; most pods get none."""
    found = dict.fromkeys((*_selector(pod, known), *_affinity(pod, known), *_taints(pod, known)))
    return tuple(found)[:MOST]


def _selector(pod: Pod, known: NodeLabels) -> Iterator[str]:
    for key, value in sorted((pod.spec.node_selector or {}).items()):
        yield from _label("spec.nodeSelector", key, (value,), known)


def _affinity(pod: Pod, known: NodeLabels) -> Iterator[str]:
    required = required_affinity(pod)
    for term in (required.node_selector_terms or ()) if required else ():
        for each in term.match_expressions or ():
            yield from _expression(each, known)


def _expression(each: SelectorRequirement, known: NodeLabels) -> Iterator[str]:
    where = "spec.affinity.nodeAffinity"
    if each.operator == "In":
        yield from _label(where, each.key, each.values or (), known)
    elif each.operator in ("Exists", "Gt", "Lt"):
        yield from _label(where, each.key, (), known)


def _label(where: str, key: str, wanted: tuple[str, ...], known: NodeLabels) -> Iterator[str]:
    """Advice where no node has the key, or none of the values."""
    values = known.values.get(key)
    if values is None:
        yield f"{where}[{key}]: no node has this label{_closest(key, known.values)}"
    elif wanted and len(values) < VALUES and not any(value in values for value in wanted):
        for value in wanted:
            yield f"{where}[{key}]: no node has the value {value!r}{_closest(value, values)}"


def _taints(pod: Pod, known: NodeLabels) -> Iterator[str]:
    """Advice about tolerations of no node's taint, where a similar taint keeps the pod away."""
    tolerations = pod.spec.tolerations or ()
    away = {taint.key for taint in known.taints if not tolerated(taint, tolerations)}
    existing = {taint.key for taint in known.taints}
    for toleration in tolerations:
        if toleration.key and toleration.key not in existing:
            close = _closest(toleration.key, away)
            if close:
                yield f"spec.tolerations[{toleration.key}]: no node has this taint{close}"


def _closest(word: str, known: Iterable[str]) -> str:
    found = get_close_matches(word, sorted(known), 1, CLOSE)
    return f"; did you mean {found[0]}?" if found else ""
