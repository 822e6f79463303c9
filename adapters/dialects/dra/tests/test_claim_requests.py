"""What is written as a claim of our driver is the request that is read of it."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRIVER
from adapters.dialects.dra.card_selectors import constraints, expressions
from adapters.dialects.dra.claim_requests import is_own, read_request
from adapters.dialects.dra.claim_specs import claim_specs, lost_peak
from adapters.dialects.request_writer import CardFacts, losses
from adapters.wire.dra import ClaimSpec
from adapters.wire.kube import Container, Metadata, Pod, PodSpec
from core.hardware.card import Mode
from core.hardware.quantity import FULL, GIB, MIB
from core.requests.request import ContainerRequest, Phase, Request

CARD = 80 * GIB
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1)


def again(request: Request, card: int | None = CARD) -> Request:
    names = [each.name for each in request.containers]
    claims = [msgspec.convert(each, ClaimSpec) for each in claim_specs(request, card)]
    pod = Pod(Metadata("p"), PodSpec(tuple(Container(name) for name in names)))
    return read_request(pod, dict(zip(names, claims, strict=True)))


def lost(request: Request, card: int | None = CARD) -> dict[str, tuple[str, str]]:
    found = losses(request, again(request, card), CardFacts(card))
    return {each.field: (each.before, each.after) for each in found}


def a_request(*containers: ContainerRequest, **more: Any) -> Request:
    return Request("", "default/p", "", containers, **more)


@st.composite
def containers(draw: st.DrawFn) -> ContainerRequest:
    memory = draw(st.none() | st.integers(1, 80 * 1024).map(lambda mib: mib * MIB))
    percent = draw(st.integers(1, FULL)) if memory is None else None
    compute = draw(st.integers(0, FULL))
    return ContainerRequest(
        "",
        draw(st.integers(1, 8)),
        memory=memory,
        memory_percent=percent,
        compute=compute,
        exclusive=compute == FULL,
        step=MIB,
    )


@given(
    st.lists(containers(), min_size=1, max_size=3),
    st.none() | st.frozensets(TEXTS),
    st.frozensets(TEXTS),
    st.none() | st.lists(TEXTS).map(tuple),
    st.lists(TEXTS).map(tuple),
    st.sampled_from([None, "nvidia", 'a"b\\c']),
)
def test_a_request_for_shares_is_the_same_after_it_was_written(
    parts: list[ContainerRequest],
    allowed: frozenset[str] | None,
    denied: frozenset[str],
    types: tuple[str, ...] | None,
    no_types: tuple[str, ...],
    vendor: str | None,
) -> None:
    request = a_request(
        *(replace(each, name=f"c{number}") for number, each in enumerate(parts)),
        vendor=vendor,
        allow_uuids=allowed,
        deny_uuids=denied,
        allow_types=types,
        deny_types=no_types,
    )

    after = again(request)

    assert list(losses(request, after, CardFacts(CARD))) == []
    assert (after.vendor, after.allow_uuids, after.deny_uuids) == (vendor, allowed, denied)
    assert (after.allow_types, after.deny_types) == (types, no_types)


@given(st.text())
def test_an_expression_is_read_as_it_was_written_or_rejected(text: str) -> None:
    try:
        found = constraints([text], "p")
    except DialectError:
        return
    wanted = a_request(
        ContainerRequest("c", 1),
        vendor=found.vendor,
        allow_uuids=found.allow_uuids,
        deny_uuids=found.deny_uuids,
        allow_types=found.allow_types,
        deny_types=found.deny_types,
    )
    assert constraints(expressions(wanted), "p") == found


def test_whole_cards_have_a_class_of_their_own() -> None:
    whole = ContainerRequest("c", 2, memory_percent=FULL, compute=FULL, exclusive=True)

    either = a_request(whole, modes=frozenset({Mode.SHARED, Mode.WHOLE}))
    shared = a_request(whole)

    assert lost(either) == lost(shared) == {}
    classes = [
        claim_specs(each, None)[0]["devices"]["requests"][0]["exactly"]["deviceClassName"]
        for each in (either, shared)
    ]
    assert classes == ["whole.dragoman.dev", "share.dragoman.dev"]


def test_a_mig_slice_is_the_smallest_amount_that_is_requested() -> None:
    modes = frozenset({Mode.MIG})
    part = a_request(ContainerRequest("c", 1, memory=10 * GIB), modes=modes)
    card = a_request(ContainerRequest("c", 1, memory_percent=FULL), modes=modes)

    assert lost(part) == lost(card) == {}
    with pytest.raises(DialectError, match="--card-memory"):
        claim_specs(card, None)


def test_an_exclusive_card_gets_all_compute() -> None:
    part = ContainerRequest("c", 1, memory=GIB, compute=30, exclusive=True)

    assert lost(a_request(part)) == {"container c: compute": ("30 %", "100 %")}


def test_init_containers_lose_the_peak() -> None:
    one = ContainerRequest("c", 1, memory=GIB)
    first = replace(one, name="i", phase=Phase.INIT)

    assert [each.field for each in lost_peak(a_request(first, one))] == ["cards of init containers"]
    assert [*lost_peak(a_request(first)), *lost_peak(a_request(one, one))] == []


def spec(*more: dict[str, Any], **fields: Any) -> ClaimSpec:
    exactly = {"deviceClassName": "share.dragoman.dev", **fields}
    devices = {"requests": [{"name": "r", "exactly": exactly}]}
    for each in more:
        devices |= each
    return msgspec.convert({"devices": devices}, ClaimSpec)


def read(*claims: ClaimSpec) -> Request:
    names = [f"c{number}" for number in range(len(claims))]
    pod = Pod(Metadata("p"), PodSpec(tuple(map(Container, names))))
    return read_request(pod, dict(zip(names, claims, strict=True)))


ALTERNATIVES = {
    "requests": [
        {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "share.dragoman.dev"}]}
    ]
}


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ([spec(ALTERNATIVES)], "must have one request"),
        ([spec({"requests": []})], "must have one request"),
        ([spec(adminAccess=True)], "adminAccess"),
        ([spec(tolerations=[{"operator": "Exists"}])], "tolerations"),
        ([spec(allocationMode="All")], "allocationMode"),
        ([spec({"config": [{"opaque": {}}]})], "config"),
        ([spec({"constraints": [{"matchAttribute": "a/b"}]})], "constraints"),
        ([spec(count=0)], "must be 1 or more"),
        ([spec(capacity={"requests": {"slots": "1"}})], "no other dialect has it"),
        (
            [spec(capacity={"requests": {"memory": "1"}}, deviceClassName="whole.dragoman.dev")],
            "no other dialect has it",
        ),
        ([spec(capacity={"requests": {"memory": "x"}})], "capacity memory"),
        ([spec(capacity={"requests": {"memory": "-1"}})], "must be 0 or more"),
        ([spec(capacity={"requests": {"compute": "101"}})], "must be 0 to 100"),
        ([spec(capacity={"requests": {"evil.dev/memory": "1Gi"}})], "no other dialect has it"),
        ([spec(capacity={"requests": {"memory": "1Gi", f"{DRIVER}/memory": "2Gi"}})], "twice"),
        ([spec(selectors=[{"cel": {"expression": "true"}}])], "only the expressions"),
        ([spec(selectors=[{}])], "only the expressions"),
        ([spec(), spec(selectors=[{"cel": {"expression": "x"}}])], "only the expressions"),
    ],
)
def test_what_no_dialect_has_a_word_for_is_rejected(claims: list[ClaimSpec], problem: str) -> None:
    with pytest.raises(DialectError, match=problem):
        read(*claims)


@pytest.mark.parametrize("name", ["memory", f"{DRIVER}/memory"])
def test_a_capacity_of_the_driver_can_be_written_with_its_domain(name: str) -> None:
    (container,) = read(spec(capacity={"requests": {name: "1Gi"}})).containers

    assert container.memory == GIB


OWN = 'device.attributes["gpu.dragoman.dev"]'


@pytest.mark.parametrize(
    "expression",
    [
        f"{OWN}.vendor == 1",
        f"{OWN}.vendor == nvidia",
        f'{OWN}.uuid in "GPU-0"',
        f"{OWN}.uuid in [1]",
        f'x{OWN}.uuid in ["GPU-0"]',
        f"1.exists(t, has({OWN}.productName) && {OWN}.productName.lowerAscii().contains("
        "t.lowerAscii()))",
    ],
)
def test_other_expressions_are_rejected(expression: str) -> None:
    with pytest.raises(DialectError, match="only the expressions"):
        constraints([expression], "p")


def test_an_expression_counts_once() -> None:
    with pytest.raises(DialectError, match="each once"):
        constraints([f'{OWN}.vendor == "a"', f'{OWN}.vendor == "b"'], "p")


def test_all_containers_have_the_same_selectors() -> None:
    other = spec(selectors=[{"cel": {"expression": f'{OWN}.vendor == "metax"'}}])

    assert read(other, other).vendor == "metax"
    with pytest.raises(DialectError, match="all containers of a pod must have the same"):
        read(spec(), other)


def test_containers_without_a_claim_request_nothing() -> None:
    pod = Pod(Metadata("p"), PodSpec((Container("a"), Container("b"))))

    assert [each.name for each in read_request(pod, {"b": spec()}).containers] == ["b"]


def test_a_claim_of_our_classes_is_ours() -> None:
    assert is_own(spec())
    assert is_own(spec(ALTERNATIVES))
    assert not is_own(spec(deviceClassName="gpu.nvidia.com"))
    assert not is_own(ClaimSpec())
