from typing import Any

import msgspec
import pytest

from adapters.cli.doctor.objects import NetworkPolicy
from adapters.cli.doctor.schedulers import Caller, closing

CALLED = {"app": "service"}
POD = Caller("apart", {"team": "a"}, {"app": "scheduler"}, ("10.244.1.7",))
ON_NODE = POD._replace(labels=None, addresses=("172.18.0.4",))
BLOCK = {"cidr": "172.18.0.0/16", "except": ["172.18.0.8/29"]}


def policy(*ingress: object, **spec: object) -> NetworkPolicy:
    made = {
        "metadata": {"name": "closed", "namespace": "here"},
        "spec": {"podSelector": {"matchLabels": CALLED}, "ingress": list(ingress), **spec},
    }
    return msgspec.convert(made, NetworkPolicy)


def closed(*policies: NetworkPolicy, caller: Caller = POD) -> bool:
    return closing(policies, "here", CALLED, (9595, "http"), caller) != []


def rule(*callers: object, **more: object) -> dict[str, Any]:
    return {"from": list(callers), **more}


def test_pods_that_no_policy_selects_are_open() -> None:
    other = {"podSelector": {"matchLabels": {"app": "other"}}}
    elsewhere = msgspec.structs.replace(policy(), metadata=NetworkPolicy().metadata)

    assert not closed()
    assert not closed(policy(**other), policy(policyTypes=["Egress"]), elsewhere)
    assert closed(policy())


def test_a_policy_that_admits_the_caller_opens_what_another_one_closes() -> None:
    admitting = policy(rule({"namespaceSelector": {}}), podSelector={})

    assert not closed(policy(), admitting)


@pytest.mark.parametrize(
    ("peer", "admitted"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"podSelector": {"matchLabels": {"app": "scheduler"}}}, False),
        ({"podSelector": {"matchLabels": {"app": "other"}}, "namespaceSelector": {}}, False),
        ({"ipBlock": {"cidr": "10.244.0.0/16"}}, True),
        ({"ipBlock": {"cidr": "no address"}}, False),
    ],
)
def test_a_pod_is_found_by_its_namespace_its_labels_or_its_address(
    peer: object, admitted: bool
) -> None:
    assert closed(policy(rule(peer))) is not admitted


def test_a_pod_of_the_same_namespace_needs_no_selector_of_namespaces() -> None:
    peer = {"podSelector": {"matchLabels": {"app": "scheduler"}}}

    assert not closed(policy(rule(peer)), caller=POD._replace(namespace="here"))


def test_a_pod_on_the_network_of_its_node_is_found_by_the_nodes_address_alone() -> None:
    selecting, block = policy(rule({"namespaceSelector": {}})), policy(rule({"ipBlock": BLOCK}))

    assert closed(selecting, caller=ON_NODE)
    assert not closed(block, caller=ON_NODE)
    assert closed(block, caller=ON_NODE._replace(addresses=("172.18.0.9",)))
    assert closed(block, caller=ON_NODE._replace(addresses=("",)))


@pytest.mark.parametrize(
    ("ports", "admitted"),
    [
        ([], True),
        ([{"port": 9595}], True),
        ([{"port": "http"}], True),
        ([{}], True),
        ([{"port": "https"}], False),
    ],
)
def test_a_rule_is_of_its_ports(ports: list[object], admitted: bool) -> None:
    assert closed(policy({"ports": ports})) is not admitted
