"""The answer about claims, beside one that tries every assignment of devices."""

from collections.abc import Iterator, Sequence
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


KINDS = ("gpu", "mig", None)


@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    st.lists(
        st.sampled_from(
            (
                "device.driver == 'gpu.nvidia.com'",
                'device.driver=="other"',
                "device.attributes['gpu.nvidia.com'].type == 'gpu'",
                ' device.attributes[ "gpu.nvidia.com" ].type == "mig" ',
                "device.attributes['other'].type == 'gpu'",
                "device.attributes['gpu.nvidia.com'].type != 'gpu'",
                "true // && device.driver == 'other'",
                "(device.driver == 'other' || true)",
            )
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 2),
)
def test_a_sure_answer_is_what_the_expressions_say(
    kinds: list[str | None], parts: list[str], count: int
) -> None:
    facts, asks = cluster([(0, False)] * len(kinds), [[(count, None)]], 1, kinds, parts)
    known = [truth(parts, kind) for kind in kinds]

    answer = Judge(facts).answer(asks)

    if answer.claims is None:  # of no card
        assert True not in known
        return
    if answer.claims.is_sure and answer.fitting:
        assert None not in known
        assert known.count(True) >= count
    if not answer.fitting:
        assert known.count(True) < count
    if all("==" in part and "//" not in part and "(" not in part for part in parts) and (
        None not in known and known.count(True) >= count
    ):
        assert answer.claims.is_sure


def truth(parts: list[str], kind: str | None) -> bool | None:
    """What the parts together say of a device of a kind; None for an error."""
    found: list[bool | None] = []
    for part in parts:
        if "type" not in part:
            found.append("true" in part or "nvidia" in part)
        elif "'other'" in part or kind is None:
            found.append(None)
        elif "!=" in part:
            found.append(kind != "gpu")
        else:
            found.append(("'gpu'" in part) if kind == "gpu" else ("mig" in part))
    return False if False in found else None if None in found else True


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


def cluster(
    devices: list[Device],
    asked: list[list[Need]],
    claims: int,
    kinds: Sequence[str | None] = (),
    parts: Sequence[str] = ('device.driver == "gpu.nvidia.com"',),
) -> tuple[FleetFacts, Pod]:
    published = a_slice(*(uuid(at) for at in range(len(devices))))
    for device, (_, is_shared) in zip(published["spec"]["devices"], devices, strict=True):
        device["allowMultipleAllocations"] = is_shared
    for device, kind in zip(published["spec"]["devices"], kinds, strict=False):
        device["attributes"] |= {} if kind is None else {"type": {"string": kind}}
    things: list[Plain] = [node(cards=len(devices)), published]
    things += [
        volcano_bound(f"v{at}", used * 1000, at) for at, (used, _) in enumerate(devices) if used
    ]
    things.append(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": " && ".join(parts)}}]},
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
