"""Pods whose extended resource a DeviceClass names: a device plugin's or a claim's, by the node."""

from collections.abc import Sequence
from copy import deepcopy

from hypothesis import example, given
from hypothesis import strategies as st

from adapters.answer.answer import PodAnswer
from adapters.answer.judge import Judge
from adapters.cli.fleet.facts import FleetFacts
from adapters.cli.fleet.fleet import read_fleet
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import Source
from adapters.cli.tests.builders import Plain, a_slice, node, pod, stream, uuid, volcano_bound
from adapters.dialects.dialect import Defaults

GPU = "nvidia.com/gpu"

Drawn = tuple[str | None, int, int, Sequence[int]]
"""What a node advertises, its cards of Volcano and its devices, and the cards that shares have."""

drawn = st.tuples(
    st.sampled_from((None, "0", "1", "2")),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sets(st.integers(0, 1)).map(sorted),
)

PARTLY = "device.attributes['x'].y == 'z'"


@given(
    st.lists(drawn, min_size=1, max_size=4),
    st.integers(1, 3),
    st.sampled_from(("true", PARTLY, "false")),
    st.booleans(),
)
@example(
    nodes=[("1", 0, 0, ()), ("0", 1, 1, ()), (None, 0, 0, ())],
    amount=1,
    expression="true",
    is_in_use=False,
)
@example(
    nodes=[(None, 1, 1, (0,)), (None, 2, 2, (1,))],
    amount=1,
    expression=PARTLY,
    is_in_use=True,
)
def test_the_answer_is_the_union_of_a_plugins_and_a_claims(
    nodes: list[Drawn], amount: int, expression: str, is_in_use: bool
) -> None:
    things = [each for at, one in enumerate(nodes) for each in of_node(at, one)]
    if is_in_use:
        things.append(pod("u", {GPU: 1}, spec={"nodeName": "node-0"}, metadata={"uid": "u"}))
    plain = pod("p", {GPU: amount})
    by_claim = {
        f"node-{at}"
        for at, (advertised, _, devices, _) in enumerate(nodes)
        if devices and not int(advertised or 0)
    }

    plugin = answer(*things, a_class(expression), plain)
    claim = answer(*things, a_class(expression), *claiming(amount))
    union = answer(*things, a_class(expression, extendedResourceName=GPU), plain)

    expected = {*plugin.fitting} - by_claim | {*claim.fitting} & by_claim
    assert {*union.fitting} == expected
    assert len(union.fitting) == len(expected)
    assert (union.best in expected) if expected else union.best is None
    why = {name: text for name, text in plugin.texts().items() if name not in by_claim}
    why |= {name: text for name, text in claim.texts().items() if name in by_claim}
    assert union.texts() == why
    if {*claim.fitting} & by_claim and claim.claims is not None:
        assert union.claims is not None
        assert union.claims.is_sure or not claim.claims.is_sure


def of_node(at: int, one: Drawn) -> list[Plain]:
    name, (advertised, cards, devices, shares) = f"node-{at}", one
    stated = {} if advertised is None else {GPU: advertised}
    things = [node(name, cards, more={"status": {"allocatable": stated, "capacity": stated}})]
    if not cards:
        things[0]["metadata"]["annotations"] = {}
    if devices:
        published = deepcopy(a_slice(*(uuid(card, name) for card in range(devices))))
        published["metadata"]["name"] = name
        published["spec"] |= {"nodeName": name, "pool": {"name": name, "generation": 1}}
        things.append(published)
    taken = (volcano_bound(f"v{at}-{card}", 1000, card, name) for card in shares if card < cards)
    return [*things, *taken]


def a_class(expression: str, name: str = "gpu", **spec: object) -> Plain:
    text = f'device.driver == "gpu.nvidia.com"{"" if expression == "true" else " && " + expression}'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": text}}], **spec},
    }


def claiming(amount: int) -> tuple[Plain, Plain]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": amount}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "w"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    entry = {"name": "c", "resourceClaimTemplateName": "w"}
    return template, pod("p", spec={"resourceClaims": [entry]})


def answer(*things: Plain) -> PodAnswer:
    found = manifests([Source("things", stream(*things), named=True)])
    return Judge(FleetFacts(read_fleet(found, Defaults()))).answer(found.pods["default/p"][0])
