"""The answer about claims, beside one that tries every assignment of devices."""

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

from hypothesis import given
from hypothesis import strategies as st

from adapters.answer.judge import Judge
from adapters.cli.fleet.facts import FleetFacts
from adapters.cli.fleet.fleet import read_fleet
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import Source
from adapters.cli.tests.builders import Plain, a_slice, node, pod, stream, uuid, volcano_bound
from adapters.dialects.dialect import Defaults
from adapters.wire.kube import Pod

CARD = 10
"""Thousands of MiB that each card has."""

ALL = -1

Need = tuple[int, int | None]
"""How many devices, or ``ALL``, and the memory of each; None for all of it."""

Device = tuple[int, bool]
"""What pods have of its card, and whether claims can share it."""

needs = st.tuples(st.sampled_from((1, 1, 2, 3, ALL)), st.sampled_from((None, 2, 3, 5, 9, 11)))
requests = st.lists(needs, min_size=1, max_size=2)


@given(
    st.lists(st.tuples(st.sampled_from((0, 0, 1, 5, 8)), st.booleans()), min_size=1, max_size=3),
    st.lists(requests, min_size=1, max_size=3),
    st.integers(1, 2),
)
def test_a_node_fits_where_any_assignment_of_devices_is_possible(
    devices: list[Device], asked: list[list[Need]], claims: int
) -> None:
    facts, asks = cluster(devices, asked, claims)

    answer = Judge(facts).answer(asks)

    assert answer.claims is not None
    possible = any(is_possible(devices, each) for each in assignments(devices, asked))
    if answer.claims.is_sure:
        assert bool(answer.fitting) == possible
    else:  # too many were to be tried
        assert answer.fitting


def assignments(
    devices: list[Device], asked: list[list[Need]]
) -> Iterator[list[tuple[int, int | None]]]:
    """Every way to give each request devices, as devices with the memory of each."""
    for needs_ in product(*asked):
        choices = [
            [tuple(range(len(devices)))]
            if count == ALL
            else [
                chosen
                for chosen in combinations_with_replacement(range(len(devices)), count)
                if all(devices[at][1] for at in chosen if chosen.count(at) > 1)
            ]
            for count, _ in needs_
        ]
        for chosen in product(*choices):
            yield [(at, need[1]) for need, ats in zip(needs_, chosen, strict=True) for at in ats]


def is_possible(devices: list[Device], assignment: list[tuple[int, int | None]]) -> bool:
    for at, (used, is_shared) in enumerate(devices):
        wanted = [memory for device, memory in assignment if device == at]
        if any(memory is not None and memory > CARD for memory in wanted):
            return False
        if is_shared:
            if wanted and used + sum(CARD if each is None else each for each in wanted) > CARD:
                return False
        elif len(wanted) > 1 or (wanted and used):
            return False
    return True


def cluster(devices: list[Device], asked: list[list[Need]], claims: int) -> tuple[FleetFacts, Pod]:
    published = a_slice(*(uuid(at) for at in range(len(devices))))
    for device, (_, is_shared) in zip(published["spec"]["devices"], devices, strict=True):
        device["allowMultipleAllocations"] = is_shared
    things: list[Plain] = [node(cards=len(devices)), published]
    things += [
        volcano_bound(f"v{at}", used * 1000, at) for at, (used, _) in enumerate(devices) if used
    ]
    things.append(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
        }
    )
    for number in range(claims):
        requests_ = [
            {"name": f"r{at}", "firstAvailable": [a_request(*each) for each in options]}
            for at, options in enumerate(asked)
            if at % claims == number
        ]
        things.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": f"c{number}"},
                "spec": {"devices": {"requests": requests_}},
            }
        )
    entries = [{"name": f"c{at}", "resourceClaimName": f"c{at}"} for at in range(claims)]
    things.append(pod("p", spec={"resourceClaims": entries}))
    found = manifests([Source("things", stream(*things), named=True)])
    fleet = read_fleet(found, Defaults())
    return FleetFacts(fleet), found.pods["default/p"][0]


def a_request(count: int, memory: int | None) -> Plain:
    amount: Plain = {"allocationMode": "All"} if count == ALL else {"count": count}
    if memory is not None:
        amount["capacity"] = {"requests": {"memory": f"{memory * 1000}Mi"}}
    name = f"a{count % 10}-{memory}"
    return {"name": name, "deviceClassName": "gpu", **amount}
