import pytest

from adapters.dialects.containers import (
    PodContainer,
    names_extended_resource,
    pod_containers,
    resource_names,
    stated_amount,
    whole_amount,
)
from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Amount, Container, Pod, PodSpec, Resources
from core.requests.request import Phase

CARDS = "example.com/cards"


def container(
    name: str = "main",
    limits: dict[str, Amount] | None = None,
    requests: dict[str, Amount] | None = None,
    restart_policy: str | None = None,
) -> Container:
    return Container(name, Resources(limits, requests), restart_policy)


def member(
    limits: dict[str, Amount] | None = None, requests: dict[str, Amount] | None = None
) -> PodContainer:
    (only,) = pod_containers(Pod(spec=PodSpec(containers=(container("main", limits, requests),))))
    return only


def test_containers_come_in_the_order_in_which_they_start() -> None:
    pod = Pod(
        spec=PodSpec(
            containers=(container("a"), container("b")),
            init_containers=(container("prepare"), container("proxy", restart_policy="Always")),
        )
    )

    order = [(one.container.name, one.phase, one.path) for one in pod_containers(pod)]

    assert order == [
        ("prepare", Phase.INIT, "spec.initContainers[prepare]"),
        ("proxy", Phase.SIDECAR, "spec.initContainers[proxy]"),
        ("a", Phase.MAIN, "spec.containers[a]"),
        ("b", Phase.MAIN, "spec.containers[b]"),
    ]


def test_resources_are_found_in_limits_and_requests_of_every_container() -> None:
    pod = Pod(
        spec=PodSpec(
            containers=(container(limits={"cpu": 1}), container(requests={CARDS: "1"})),
            init_containers=(container(limits={"memory": "1Gi"}),),
        )
    )

    assert resource_names(pod) == {"cpu", "memory", CARDS}


def test_only_a_resource_with_a_domain_may_be_a_share() -> None:
    pods = [Pod(spec=PodSpec((container(limits={name: 1}),))) for name in ("cpu", CARDS)]

    assert [*map(names_extended_resource, pods)] == [False, True]


@pytest.mark.parametrize("written", [2, "2", "2e0", "2000m"])
def test_a_whole_amount_is_read_however_kubernetes_may_print_it(written: Amount) -> None:
    assert whole_amount(member(limits={CARDS: written}), CARDS, 1, 8) == 2


def test_a_request_counts_where_there_is_no_limit() -> None:
    assert whole_amount(member(requests={CARDS: 3}), CARDS, 1, 8) == 3


def test_a_container_without_resources_requests_nothing() -> None:
    assert whole_amount(member(), CARDS, 1, 8) is None


@pytest.mark.parametrize(
    ("written", "right"),
    [("half", "must be a whole number, 1 to 8"), ("500m", "must be a whole number, 1 to 8")]
    + [(amount, "must be 1 to 8") for amount in (0, -1, 9, "1k")],
)
def test_an_invalid_amount_is_rejected_with_field_and_value(written: Amount, right: str) -> None:
    with pytest.raises(DialectError) as rejected:
        whole_amount(member(limits={CARDS: written}), CARDS, 1, 8)

    assert rejected.value.field == f"spec.containers[main].resources.limits[{CARDS}]"
    assert rejected.value.value == written
    assert rejected.value.problem == right


def test_a_bad_request_is_found_under_requests() -> None:
    with pytest.raises(DialectError) as rejected:
        whole_amount(member(requests={CARDS: 0}), CARDS, 1, 8)

    assert rejected.value.field == f"spec.containers[main].resources.requests[{CARDS}]"


@pytest.mark.parametrize("limit", [1, "half"])
def test_a_limit_that_differs_from_the_request_is_rejected(limit: Amount) -> None:
    with pytest.raises(DialectError, match="must equal the request, which is 2"):
        whole_amount(member(limits={CARDS: limit}, requests={CARDS: 2}), CARDS, 1, 8)


@pytest.mark.parametrize(("limit", "request_"), [(1, "1"), ("1k", 1000), ("half", "half")])
def test_a_limit_equals_its_request_by_amount_not_by_text(limit: Amount, request_: Amount) -> None:
    place, amount = stated_amount(
        member(limits={CARDS: limit}, requests={CARDS: request_}), CARDS
    ) or (
        "",
        0,
    )

    assert place.endswith(f"limits[{CARDS}]")
    assert amount == limit
