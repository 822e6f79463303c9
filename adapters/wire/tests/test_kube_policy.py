"""Which pods break a disruption budget when they go."""

import json

import msgspec
import pytest

from adapters.wire.kube import Metadata, Pod
from adapters.wire.kube_policy import Budget, violations


def a_budget(
    selector: object, allowed: int = 0, disrupted: tuple[str, ...] = (), namespace: str = "default"
) -> Budget:
    thing = {
        "metadata": {"name": "b", "namespace": namespace},
        "spec": {"selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-02T03:04:05Z"),
        },
    }
    return msgspec.json.decode(json.dumps(thing), type=Budget)


def labelled(name: str, **labels: str) -> Pod:
    return Pod(Metadata(name=name, namespace="default", labels=labels))


WEB = {"matchLabels": {"app": "web"}}


def test_a_budget_is_used_up_by_the_first_and_broken_by_the_next() -> None:
    pods = [labelled("a", app="web"), labelled("b", app="db"), labelled("c", app="web")]

    assert violations(pods, [a_budget(WEB, allowed=1)]) == (False, False, True)


def test_a_pod_whose_eviction_is_under_way_is_not_counted_again() -> None:
    pods = [labelled("a", app="web"), labelled("c", app="web")]

    assert violations(pods, [a_budget(WEB, 1, disrupted=("a",))]) == (False, False)


def test_a_budget_of_another_namespace_is_no_concern() -> None:
    assert violations([labelled("a", app="web")], [a_budget(WEB, namespace="other")]) == (False,)


@pytest.mark.parametrize("selector", [None, {}, {"matchLabels": {}}, {"matchExpressions": []}])
def test_a_selector_that_says_nothing_matches_nothing(selector: object) -> None:
    assert violations([labelled("a", app="web")], [a_budget(selector)]) == (False,)


@pytest.mark.parametrize(
    ("operator", "values", "matched"),
    [
        ("In", ["web", "x"], True),
        ("In", ["x"], False),
        ("NotIn", ["x"], True),
        ("NotIn", ["web"], False),
        ("Exists", None, True),
        ("DoesNotExist", [], False),
        ("In", [], False),
        ("Exists", ["web"], False),
        ("Gt", ["1"], False),
    ],
)
def test_each_operator_means_what_the_api_server_means(
    operator: str, values: list[str] | None, matched: bool
) -> None:
    condition = {"key": "app", "operator": operator, "values": values}
    budget = a_budget({"matchExpressions": [condition]})

    assert violations([labelled("a", app="web")], [budget]) == (matched,)


def test_a_label_that_is_missing_is_not_among_others_and_does_not_exist() -> None:
    for operator, values in (("NotIn", ["x"]), ("DoesNotExist", None)):
        condition = {"key": "tier", "operator": operator, "values": values}

        assert violations(
            [labelled("a", app="web")], [a_budget({"matchExpressions": [condition]})]
        )[0]


def test_a_pod_without_labels_breaks_nothing() -> None:
    condition = {"key": "app", "operator": "DoesNotExist"}

    assert violations([labelled("a")], [a_budget({"matchExpressions": [condition]})]) == (False,)
