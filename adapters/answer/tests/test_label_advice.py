"""Names of labels and taints that are probably misspelled."""

from typing import Any

import msgspec
import pytest

from adapters.answer.node_rules import MOST, NodeLabels, label_advice
from adapters.wire.kube import KubeNode, Pod


def known(count: int = 1) -> NodeLabels:
    found = NodeLabels()
    for number in range(count):
        plain = {
            "metadata": {
                "name": f"n{number}",
                "labels": {"gpu-model": "A100", "host": f"host-{number}"},
            },
            "spec": {"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]},
        }
        found.add(msgspec.convert(plain, KubeNode))
    return found


def advised(nodes: NodeLabels | None = None, **spec: Any) -> tuple[str, ...]:
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)
    return label_advice(pod, nodes or known())


def requiring(key: str, operator: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (
            {"gpu-modle": "A100"},
            "spec.nodeSelector[gpu-modle]: no node has this label; did you mean gpu-model?",
        ),
        (
            {"gpu-model": "A10O"},
            "spec.nodeSelector[gpu-model]: no node has the value 'A10O'; did you mean A100?",
        ),
        ({"zone": "a"}, "spec.nodeSelector[zone]: no node has this label"),
    ],
)
def test_a_node_selector_names_the_closest_label(selector: dict[str, str], text: str) -> None:
    assert advised(nodeSelector=selector) == (text,)


def test_labels_that_nodes_have_need_no_advice() -> None:
    assert advised(nodeSelector={"gpu-model": "A100"}) == ()
    assert advised(affinity=requiring("gpu-model", "NotIn", "B")) == ()
    assert advised(affinity=requiring("zone", "DoesNotExist")) == ()
    assert advised() == ()


def test_an_affinity_names_them_too() -> None:
    where = "spec.affinity.nodeAffinity"

    assert advised(affinity=requiring("gpu-modell", "Exists")) == (
        f"{where}[gpu-modell]: no node has this label; did you mean gpu-model?",
    )
    assert advised(affinity=requiring("gpu-model", "In", "A1000", "H1")) == (
        f"{where}[gpu-model]: no node has the value 'A1000'; did you mean A100?",
        f"{where}[gpu-model]: no node has the value 'H1'",
    )


def test_a_toleration_of_no_taint_names_the_taint_that_keeps_the_pod_away() -> None:
    close = {"key": "dedicted", "operator": "Exists"}

    assert advised(tolerations=[close]) == (
        "spec.tolerations[dedicted]: no node has this taint; did you mean dedicated?",
    )
    assert advised(tolerations=[close, {"key": "dedicated", "operator": "Exists"}]) == ()
    assert advised(tolerations=[{"key": "node.kubernetes.io/not-ready"}]) == ()


def test_a_label_with_a_value_for_each_node_is_not_compared() -> None:
    assert advised(known(1100), nodeSelector={"host": "host-2000"}) == ()


def test_there_are_few_sentences() -> None:
    selector = {f"odd-{number}": "x" for number in range(50)}

    assert len(advised(nodeSelector=selector)) == MOST
