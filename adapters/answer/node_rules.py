"""Whether a node's object lets a pod run there: cordon, taints, node selector, required affinity.

Source, of Kubernetes 1.37: k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go,
k8s.io/apimachinery/pkg/labels/selector.go (Requirement.Matches and NewRequirement),
k8s.io/api/core/v1/toleration.go (ToleratesTaint); pkg/scheduler/framework/plugins/
nodeunschedulable/node_unschedulable.go (who tolerates the cordon's taint may run there).
"""

import re
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from msgspec.structs import replace

from adapters.wire import kube
from core.feasibility.inventory import NodeNames
from core.requests.decision import NodeReasons
from core.requests.reason import Cause, Reason

CORDON = kube.Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""The taint that stands for ``spec.unschedulable``."""

_KEEPS_AWAY = ("NoSchedule", "NoExecute")
"""Effects that keep a pod from a node; ``PreferNoSchedule`` does not."""

_NUMBER = re.compile(r"[+-]?[0-9]+")

_LONGEST = 63
"""Characters of a label's value.
Source: kubernetes apimachinery pkg/util/validation/validation.go, LabelValueMaxLength."""


def node_rule(pod: kube.Pod, node: kube.KubeNode) -> Reason | None:
    """Why a pod may not run on a node; None where it may. The reason has no name of a node."""
    tolerations = pod.spec.tolerations or ()
    if node.spec.unschedulable and not tolerated(CORDON, tolerations):
        return Reason("", 0, cause=Cause.UNSCHEDULABLE)
    has = kube.labels(node)
    selector = pod.spec.node_selector or {}
    missing = [f"{key}={value}" for key, value in selector.items() if has.get(key) != value]
    if missing:
        text = f"lacks the label {', '.join(sorted(missing))} of the nodeSelector"
        return Reason("", 0, cause=Cause.SELECTOR, detail=text)
    required = required_affinity(pod)
    if required is not None:
        for term in required.node_selector_terms or ():
            expressions, fields = term.match_expressions or (), term.match_fields or ()
            if (expressions or fields) and (  # an empty term matches no node
                all(labelled(each, has) for each in expressions)
                and all(_is_named(each, node.metadata.name) for each in fields)
            ):
                break
        else:
            return Reason("", 0, cause=Cause.AFFINITY)
    taint = untolerated(node, tolerations)
    if taint is not None:
        text = f"untolerated taint {taint_text(taint)}"
        return Reason("", 0, cause=Cause.TAINT, detail=text)
    return None


def required_affinity(pod: kube.Pod) -> kube.RequiredNodeSelector | None:
    """Return what a pod's affinity requires of its node; None where nothing."""
    affinity = pod.spec.affinity
    of_node = None if affinity is None else affinity.node_affinity
    return None if of_node is None else of_node.required


def untolerated(node: kube.KubeNode, tolerations: Sequence[kube.Toleration]) -> kube.Taint | None:
    """Return the first taint of a node that keeps away a pod with these tolerations."""
    for taint in node.spec.taints or ():
        if taint.effect in _KEEPS_AWAY and not tolerated(taint, tolerations):
            return taint
    return None


def tolerated(taint: kube.Taint, tolerations: Sequence[kube.Toleration]) -> bool:
    """Whether one of the tolerations is for the taint.

    The operators ``Lt`` and ``Gt``, which Kubernetes has off by default, tolerate nothing.
    """
    for each in tolerations:
        is_meant = each.effect in ("", taint.effect) and each.key in ("", taint.key)
        has_value = each.operator in ("", "Equal") and each.value == taint.value
        if is_meant and (has_value or each.operator == "Exists"):
            return True
    return False


def taint_text(taint: kube.Taint) -> str:
    """Return the taint as kubectl writes it, such as ``dedicated=ml:NoSchedule``."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def labelled(requirement: kube.SelectorRequirement, has: Mapping[str, str]) -> bool:
    """Whether labels meet a condition; an invalid one is met by none."""
    value, values = has.get(requirement.key), requirement.values or ()
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return bool(values) and value not in values
        case "Exists":
            return not values and value is not None
        case "DoesNotExist":
            return not values and value is None
        case "Gt" | "Lt":
            own, bound = _number(value), _number(values[0]) if len(values) == 1 else None
            if own is None or bound is None:
                return False
            return own > bound if requirement.operator == "Gt" else own < bound
        case _:
            return False


def _is_named(requirement: kube.SelectorRequirement, name: str) -> bool:
    """Whether a node meets a condition of fields, of which it has only its name."""
    values, own = requirement.values or (), name if requirement.key == "metadata.name" else ""
    is_one = len(values) == 1 and requirement.operator in ("In", "NotIn")
    return is_one and (own == values[0]) == (requirement.operator == "In")


def _only_node(required: kube.RequiredNodeSelector | None) -> str | None:
    """Return the name of the node besides which none meets an affinity; None where not stated."""
    terms = () if required is None else required.node_selector_terms or ()
    for each in (terms[0].match_fields or ()) if len(terms) == 1 else ():
        values = each.values or ()
        if each.key == "metadata.name" and each.operator == "In" and len(values) == 1:
            return values[0]
    return None


def _number(text: str | None) -> int | None:
    """Return a number of 64 bits as Go's ``strconv.ParseInt`` reads it; None where it is none."""
    if text is None or len(text) > _LONGEST or _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


STEP = 500
"""Nodes that are compared before other calls run: about two milliseconds."""

KEPT = 128
"""Choices that are kept; a cluster has few node selectors that differ."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The candidate nodes of one pod.

    Attributes:
        selection: the candidates, in order of the nodes.
        excluded: why each of the other nodes is none.
    """

    selection: NodeNames
    excluded: NodeReasons


NOWHERE = kube.Affinity(kube.NodeAffinity(kube.RequiredNodeSelector()))
"""An affinity that no node meets."""


class NodeChooser:
    """Finds the candidates of each pod.

    Pods with the same constraints are compared once; so are those that require one node by its
    name, as pods of a DaemonSet do, and have the same constraints otherwise.
    """

    def __init__(self, nodes: Mapping[str, kube.KubeNode]) -> None:
        self._nodes = nodes
        self._known: dict[Hashable, NodeChoice] = {}

    def steps(self, pod: kube.Pod) -> Generator[None, None, NodeChoice]:
        """Return the candidates of a pod; it pauses after every ``STEP`` nodes."""
        name = _only_node(required_affinity(pod))
        if name is None:
            return (yield from self._compared(pod))
        elsewhere = replace(pod, spec=replace(pod.spec, affinity=NOWHERE))
        choice = yield from self._compared(elsewhere)
        node = self._nodes.get(name)
        if node is None:
            return choice
        reason, others = node_rule(pod, node), choice.excluded.without(name)
        if reason is None:
            return NodeChoice(NodeNames((name,)), others)
        return NodeChoice(choice.selection, others.followed_by(NodeReasons.of({name: reason})))

    def _compared(self, pod: kube.Pod) -> Generator[None, None, NodeChoice]:
        spec = pod.spec
        selector = tuple(sorted((spec.node_selector or {}).items()))
        key = (selector, required_affinity(pod), spec.tolerations)
        known = self._known.get(key)
        if known is not None:
            return known
        excluded: dict[str, Reason] = {}
        asks = bool(selector) or key[1] is not None
        for number, (name, node) in enumerate(self._nodes.items(), start=1):
            if asks or node.spec.unschedulable or node.spec.taints:
                reason = node_rule(pod, node)
                if reason is not None:
                    excluded[name] = reason
            if number % STEP == 0:
                yield
        names = NodeNames(name for name in self._nodes if name not in excluded)
        choice = NodeChoice(names, NodeReasons.of(excluded))
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[key] = choice
        return choice


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
        self.taints: dict[kube.Taint, None] = {}

    def add(self, node: kube.KubeNode) -> None:
        """Know the labels and taints of one more node."""
        for key, value in kube.labels(node).items():
            known = self.values.setdefault(key, {})
            if len(known) < VALUES:
                known[value] = None
        for taint in node.spec.taints or ():
            self.taints[taint] = None


def label_advice(pod: kube.Pod, known: NodeLabels) -> tuple[str, ...]:
    """Warnings for the author of a pod, as sentences, ``MOST`` at most; most pods get none.

    About labels of nodes that the pod's selector and its required affinity ask for, and about
    tolerations of no node's taint, where a similar taint keeps the pod away.
    """
    found: list[str] = []
    for key, value in sorted((pod.spec.node_selector or {}).items()):
        found += _label("spec.nodeSelector", key, (value,), known)
    required, where = required_affinity(pod), "spec.affinity.nodeAffinity"
    for term in (required.node_selector_terms or ()) if required else ():
        for each in term.match_expressions or ():
            if each.operator == "In":
                found += _label(where, each.key, each.values or (), known)
            elif each.operator in ("Exists", "Gt", "Lt"):
                found += _label(where, each.key, (), known)
    tolerations = pod.spec.tolerations or ()
    away = {taint.key for taint in known.taints if not tolerated(taint, tolerations)}
    existing = {taint.key for taint in known.taints}
    for toleration in tolerations:
        if toleration.key and toleration.key not in existing:
            close = _closest(toleration.key, away)
            if close:
                found.append(f"spec.tolerations[{toleration.key}]: no node has this taint{close}")
    return tuple(dict.fromkeys(found))[:MOST]


def _label(where: str, key: str, wanted: tuple[str, ...], known: NodeLabels) -> Iterator[str]:
    """Advice where no node has the key, or none of the values."""
    values = known.values.get(key)
    if values is None:
        yield f"{where}[{key}]: no node has this label{_closest(key, known.values)}"
    elif wanted and len(values) < VALUES and not any(value in values for value in wanted):
        for value in wanted:
            yield f"{where}[{key}]: no node has the value {value!r}{_closest(value, values)}"


def _closest(word: str, known: Iterable[str]) -> str:
    found = get_close_matches(word, sorted(known), 1, CLOSE)
    return f"; did you mean {found[0]}?" if found else ""
