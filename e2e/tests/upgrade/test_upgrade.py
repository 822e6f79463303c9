"""A cluster changes from the peers' own schedulers to Dragoman and back, with pods that run."""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import cluster
from e2e.harness.names import DEVICES
from e2e.harness.schedulers.schedulers import define, start_volcano_controllers
from e2e.harness.schedulers.stock_sharing import Share, shares
from e2e.testbed import cache
from e2e.tests.upgrade.pods import BEFORE, KOORD_PODS, VOLCANO_PODS, nodes
from e2e.tests.upgrade.stages import After, Before, Ours, after_us, before_us, with_us

pytestmark = pytest.mark.local("it takes the cluster's schedulers away and comes in their place")

MIB = 1 << 20


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    rows = nodes()
    with cluster([row.node for row in rows]) as plane:
        define(plane, cache.asset("koordinator", "crd"))
        create_all(plane.api, DEVICES, [row.device for row in rows if row.device is not None])
        start_volcano_controllers(plane)
        yield plane


@pytest.fixture(scope="module")
def before(plane: ControlPlane) -> Before:
    return before_us(plane)


@pytest.fixture(scope="module")
def ours(plane: ControlPlane, before: Before) -> Ours:
    return with_us(plane, before)


@pytest.fixture(scope="module")
def after(plane: ControlPlane, ours: Ours) -> After:
    return after_us(plane, ours)


def in_ledger(row: Object) -> list[Share]:
    return sorted(
        (grant["card"], grant["memory"] // MIB, grant["compute"]) for grant in row.get("grants", ())
    )


def test_every_pod_is_adopted_with_exactly_its_cards(before: Before, ours: Ours) -> None:
    readable = [name for name in BEFORE if name != "p-plain"]

    assert {name: in_ledger(ours.adopted[name]) for name in readable} == {
        name: shares(before.pods[name]) for name in readable
    }
    assert [name for name in readable if "unread" in ours.adopted[name]] == []
    assert {name: ours.adopted[name]["uid"] for name in BEFORE} == {
        name: before.pods[name]["metadata"]["uid"] for name in BEFORE
    }


def test_adoption_changes_nothing_on_a_pod_and_restarts_nothing(ours: Ours) -> None:
    assert ours.changed == {}


def test_new_pods_get_the_cards_that_no_pod_had(before: Before, ours: Ours) -> None:
    taken = {card for name in BEFORE for card, _, _ in shares(before.pods[name])}
    given = {name: in_ledger(row) for name, row in ours.bound.items()}
    print(given)

    assert all(len(got) == 1 for got in given.values())
    assert taken.isdisjoint(card for got in given.values() for card, _, _ in got)
    assert given["n-metax"] == [("GPU-gpu-m-2", 81920, 100)]
    assert given["n-beside-hami"] == [("GPU-gpu-h-0", 81920, 0)]


def test_what_the_adopted_pods_leave_is_too_little_for_a_whole_card(ours: Ours) -> None:
    print(ours.refused)

    assert len(ours.refused) == 6


def test_a_card_of_nvidias_own_plugin_blocks_its_node_and_is_reported(ours: Ours) -> None:
    row = ours.adopted["p-plain"]

    assert row["blocked"] == ["GPU-gpu-p-0", "GPU-gpu-p-1"]
    assert "the kubelet chooses its cards" in ours.unknown[0]
    assert "dragoman_allocations_unknown 1.0" in ours.metrics


def test_case_05_an_unknown_card_is_held_reported_and_never_free(
    before: Before, ours: Ours
) -> None:
    row = ours.adopted["v-lost"]

    assert in_ledger(row) == [(before.lost, 4000, 0)]
    assert any(f"holds card {before.lost}" in text for text in ours.problems)
    assert in_ledger(ours.bound["n-beside-lost"])[0][0] != before.lost
    assert "x-lost" in ours.refused  # the card came back, and was not free


def test_uninstalling_leaves_every_pod_as_it_was(after: After) -> None:
    assert after.changed == {}


def test_the_peers_count_what_was_bound_by_us(ours: Ours, after: After) -> None:
    every = {**ours.pods, **after.pods}
    use: dict[str, list[int]] = {}
    for name in (*VOLCANO_PODS, *KOORD_PODS, "n-volcano", "n-koord", *after.pods):
        for card, memory, compute in shares(every[name]):
            used = use.setdefault(card, [0, 0])
            used[0] += memory
            used[1] += compute

    assert max(memory for memory, _ in use.values()) <= 81920
    assert max(compute for _, compute in use.values()) <= 100
    assert "s-koord-3" in after.refused
