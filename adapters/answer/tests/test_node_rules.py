"""Where node objects let a pod run, as kube-scheduler decides.

Derived from the sources that ``node_rules`` names.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.answer.judge import finished
from adapters.answer.node_rules import NodeChooser, node_rule
from adapters.wire.kube import KubeNode, Pod
from core.requests.reason import Cause

LABELS = {"pool": "a", "gpus": "8"}


def a_node(spec: dict[str, Any] | None = None) -> KubeNode:
    plain = {"metadata": {"name": "n1", "labels": LABELS}, "spec": spec or {}}
    return msgspec.convert(plain, KubeNode)


def a_pod(**spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)


def requiring(*terms: dict[str, Any]) -> Pod:
    selector = {"nodeSelectorTerms": list(terms)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
    return a_pod(affinity={"nodeAffinity": required})


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


def cause(pod: Pod, node: KubeNode | None = None) -> Cause | None:
    reason = node_rule(pod, node or a_node())
    return None if reason is None else reason.cause


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (expression("pool", "In", "a", "b"), True),
        (expression("pool", "In", "b"), False),
        (expression("other", "In", "a"), False),
        (expression("pool", "NotIn", "b"), True),
        (expression("pool", "NotIn", "a"), False),
        (expression("other", "NotIn", "a"), True),
        (expression("pool", "Exists"), True),
        (expression("other", "Exists"), False),
        (expression("other", "DoesNotExist"), True),
        (expression("pool", "DoesNotExist"), False),
        (expression("gpus", "Gt", "4"), True),
        (expression("gpus", "Gt", "8"), False),
        (expression("gpus", "Lt", "9"), True),
        (expression("gpus", "Lt", "8"), False),
        (expression("gpus", "Gt", "-1"), True),
        (expression("gpus", "Gt", "4", "5"), False),
        (expression("gpus", "Gt", "few"), False),
        (expression("gpus", "Lt", "9223372036854775808"), False),
        (expression("gpus", "Lt", "9" * 63), False),
        (expression("pool", "Gt", "4"), False),
        (expression("other", "Lt", "4"), False),
        (expression("pool", "Contains", "a"), False),
        (named("In", "n1"), True),
        (named("In", "n2"), False),
        (named("NotIn", "n2"), True),
        (named("NotIn", "n1"), False),
        (named("Exists", "n1"), False),
        (named("In", "n1", "n2"), False),
        (named("In", "n1", key="metadata.uid"), False),
        (named("NotIn", "n1", key="metadata.uid"), True),
        (expression("pool", "NotIn"), False),
        (expression("pool", "Exists", "a"), False),
        (expression("other", "DoesNotExist", "a"), False),
        (expression("gpus", "Gt", "-+4"), False),
        (expression("gpus", "Gt", "+4"), True),
        ({**expression("pool", "In", "a"), **named("In", "n1")}, True),
        ({**expression("pool", "In", "b"), **named("In", "n1")}, False),
        ({}, False),
    ],
)
def test_a_required_term_matches_as_kube_scheduler_matches(
    term: dict[str, Any], fits: bool
) -> None:
    assert cause(requiring(term)) is (None if fits else Cause.AFFINITY)


def test_one_of_several_terms_suffices_and_none_matches_nothing() -> None:
    no, yes = expression("pool", "In", "b"), expression("pool", "In", "a")

    assert cause(requiring(no, yes)) is None
    assert cause(requiring()) is Cause.AFFINITY


def test_what_is_only_preferred_keeps_no_pod_away() -> None:
    assert cause(a_pod(affinity={"nodeAffinity": {}})) is None
    assert cause(a_pod(affinity={"podAntiAffinity": {}})) is None


def test_missing_labels_are_named() -> None:
    reason = node_rule(a_pod(nodeSelector={"pool": "b", "gpus": "8"}), a_node())

    assert reason is not None
    assert reason.text() == "lacks the label pool=b of the nodeSelector"


TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "ml"}, True),
        ({"key": "dedicated", "value": "web"}, False),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Gt", "value": "1"}, False),
    ],
)
def test_a_taint_is_tolerated_as_kube_scheduler_tolerates(
    toleration: dict[str, Any], tolerates: bool
) -> None:
    found = node_rule(a_pod(tolerations=[toleration]), a_node({"taints": [TAINT]}))

    assert (found is None) is tolerates
    if found is not None:
        assert found.text() == "untolerated taint dedicated=ml:NoSchedule"


def test_only_hard_effects_keep_pods_away() -> None:
    soft = {"key": "x", "effect": "PreferNoSchedule"}
    hard = {"key": "y", "effect": "NoExecute"}

    assert cause(a_pod(), a_node({"taints": [soft]})) is None
    reason = node_rule(a_pod(), a_node({"taints": [soft, hard]}))
    assert reason is not None
    assert reason.text() == "untolerated taint y:NoExecute"


def test_a_cordon_is_no_taint_and_its_toleration_counts() -> None:
    key = "node.kubernetes.io/unschedulable"
    cordoned = a_node({"unschedulable": True, "taints": [{"key": key, "effect": "NoSchedule"}]})
    tolerant = a_pod(tolerations=[{"key": key, "operator": "Exists"}])

    assert cause(a_pod(), cordoned) is Cause.UNSCHEDULABLE
    assert cause(tolerant, cordoned) is None


EMPTY: dict[str, Any] = {}
SPECS = st.sampled_from([EMPTY, {"unschedulable": True}, {"taints": [TAINT]}])
VALUES = st.lists(st.sampled_from("abcdx"), min_size=1, max_size=2, unique=True)
FIELDS = st.builds(
    lambda operator, values: named(operator, *values), st.sampled_from(["In", "NotIn"]), VALUES
)
TERMS = st.builds(
    lambda term, more: {**term, **more},
    FIELDS,
    st.sampled_from([EMPTY, expression("pool", "In", "a")]),
)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), SPECS), max_size=4),
    st.lists(st.lists(TERMS, min_size=1, max_size=2), min_size=1, max_size=3),
)
def test_pods_that_require_nodes_by_name_have_the_candidates_that_each_node_says(
    drawn: list[tuple[str, dict[str, Any]]], pods: list[list[dict[str, Any]]]
) -> None:
    nodes = {}
    for name, (pool, spec) in zip("abcd", drawn, strict=False):
        plain = {"metadata": {"name": name, "labels": {"pool": pool}}, "spec": spec}
        nodes[name] = msgspec.convert(plain, KubeNode)
    chooser = NodeChooser(nodes)

    for pod in (requiring(*terms) for terms in pods):
        choice = finished(chooser.steps(pod))
        rules = {name: node_rule(pod, node) for name, node in nodes.items()}
        assert choice.selection.names == tuple(name for name in rules if rules[name] is None)
        found = {name: choice.excluded[name].cause for name in choice.excluded}
        assert found == {name: rule.cause for name, rule in rules.items() if rule is not None}
        assert all(count for _, count in choice.excluded.counted())
