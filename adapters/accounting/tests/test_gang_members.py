"""What the pods of a gang have, and a plan for those that need cards, without a service."""

from collections.abc import Collection, Hashable, Mapping, Sequence

import pytest

from adapters.accounting.gang_cache import Gang, GangPart
from adapters.accounting.gang_members import GangMembers, members_of
from adapters.accounting.pod_requests import PodRequestCache
from adapters.dialects.merge import read_node
from adapters.service.tests.builders import DIALECTS, a_node, a_pod, read_pod
from adapters.wire.kube import Metadata, Pod, PodSpec, UnreadPod
from core.feasibility.cache import FeasibilityCache
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.gang_plan import GangPlan
from core.feasibility.inventory import Inventory, NodeNames
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import QuotaAmounts
from core.requests.gang import GangApi, GangRef
from core.requests.request import PodRef, Request

LARGE = 5000
"""MiB, more than half of a card."""


def pods(names: str) -> list[Pod]:
    return [read_pod(a_pod(name, memory=LARGE)) for name in names]


def members(
    given: Sequence[Pod], minimum: int, *, held: Collection[str] = (), moving: Collection[str] = ()
) -> GangMembers:
    ref = GangRef(GangApi.KOORDINATOR, "default", "g")
    gang = Gang(ref, (GangPart(ref, minimum, tuple(given)),))
    read = PodRequestCache(DIALECTS).read
    return members_of(gang, held.__contains__, read, frozenset(moving))


def plan(asked: GangMembers, *, cards: int = 3, quota: int = 100_000) -> GangPlan:
    """Plan on one node; the quota is in thousandths of a card."""
    node, _ = read_node(a_node("n", cards=cards), None, DIALECTS)
    inventory, cache = Inventory([NodeLedger.of(node)]), FeasibilityCache()
    names = NodeNames(inventory.names())

    def evaluate(_kind: Hashable, request: Request) -> NodeEvaluation:
        return cache.evaluate(request, inventory)

    def refusal_of(holder: PodRef, amounts: QuotaAmounts) -> str | None:
        return f"{holder} is over the quota" if amounts.cards > quota else None

    return asked.plan(evaluate, lambda _: names, refusal_of)


def test_pods_with_cards_and_pods_that_need_none_are_placed_and_the_others_wait() -> None:
    given = [
        *pods("ab"),
        read_pod(a_pod("plain", limits={"cpu": 1})),
        read_pod(a_pod("invalid", memory="much")),
    ]

    found = members(given, 4, held=["uid-a"])

    assert found.placed == {"uid-a", "uid-plain"}
    assert [each.request.uid for each in found.waiting] == ["uid-b"]
    assert (found.lacks(), found.lacks(["uid-b"])) == (2, 1)


def test_a_pod_that_moves_waits_whatever_it_has() -> None:
    found = members(pods("ab"), 2, held=["uid-a", "uid-b"], moving=["uid-a"])

    assert found.placed == {"uid-b"}
    assert [each.request.uid for each in found.waiting] == ["uid-a"]


def test_the_quota_counts_the_pods_of_a_plan_together() -> None:
    found = plan(members(pods("abc"), 3), quota=1000)

    assert len(found.placed) == 1
    assert found.short in {"default/a", "default/b", "default/c"}
    assert found.reason == "the gang is over the quota of namespace default"


def test_the_quota_counts_a_pod_that_moves_already() -> None:
    moves = members(pods("a"), 1, held=["uid-a"], moving=["uid-a"])

    assert plan(moves, quota=0).placed.keys() == {"uid-a"}
    assert not plan(members(pods("a"), 1), quota=0).placed


def test_of_a_plan_for_more_pods_than_may_have_cards_the_gang_keeps_those_it_needs() -> None:
    asked = members(pods("abcd"), 2, held=["uid-d"], moving=["uid-d"])
    planned = plan(asked, cards=4).placed

    assert len(planned) == 4
    assert asked.at_most(lambda _: 3, planned) is planned
    assert asked.at_most(lambda _: 1, planned).keys() == {"uid-a", "uid-d"}
    assert asked.at_most(lambda _: -1, planned).keys() == {"uid-d"}


def test_a_pod_that_cannot_be_decoded_counts_only_where_it_is_bound_or_has_cards() -> None:
    given = [
        UnreadPod(Metadata(name=name, namespace="default", uid=f"uid-{name}"), PodSpec(node_name=n))
        for name, n in (("a", "n"), ("b", None), ("c", None))
    ]

    found = members(given, 3, held=["uid-b"])

    assert found.placed == {"uid-a", "uid-b"}
    assert found.waiting == ()


def joined(*sizes: tuple[str, int], tasks: Mapping[str, int] | None = None) -> GangMembers:
    """Gangs that are bound together: the names of their pods, and how many are needed of each."""
    parts = []
    for number, (names, least) in enumerate(sizes):
        ref = GangRef(GangApi.VOLCANO, "default", f"g{number}")
        texts = [{"volcano.sh/task-spec": name} for name in names]
        made = [
            read_pod(a_pod(f"{name}{number}{at}", memory=LARGE, annotations=text))
            for at, (name, text) in enumerate(zip(names, texts, strict=True))
        ]
        parts.append(GangPart(ref, least, tuple(made), dict(tasks or {})))
    read = PodRequestCache(DIALECTS).read
    return members_of(Gang(parts[0].ref, tuple(parts)), lambda _: False, read)


@pytest.mark.parametrize(
    ("sizes", "cards"),
    [
        ([("aa", 1), ("b", 1)], 2),
        ([("b", 1), ("aaa", 2)], 3),
        ([("aaaa", 1), ("bbb", 2), ("c", 1)], 4),
        ([("aaaa", 0), ("bb", 2)], 2),
    ],
)
def test_least_numbers_of_joined_gangs_come_before_their_other_pods(
    sizes: list[tuple[str, int]], cards: int
) -> None:
    for order in (sizes, sizes[::-1]):
        asked = joined(*order)
        placed = plan(asked, cards=cards).placed
        assert (asked.lacks(placed), len(placed)) == (0, cards)
        assert asked.lacks(asked._needed_first([*placed])[:cards]) == 0


@pytest.mark.parametrize("names", ["aaab", "baaa", "abab", "aabb"])
def test_least_numbers_of_tasks_come_before_the_other_pods_of_their_gang(names: str) -> None:
    asked = joined((names, 3), tasks={"a": 1, "b": 1})

    placed = plan(asked).placed

    assert (asked.lacks(placed), len(placed)) == (0, 3)
    waiting = asked.at_first(3).waiting
    assert asked.lacks([each.request.uid for each in waiting]) == 0
