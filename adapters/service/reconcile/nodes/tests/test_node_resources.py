"""Extended resources of nodes: the amounts, when they are written, and when they are not."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.accounting.published_resources import MARK, written
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.reconcile.nodes.node_resources import (
    LONGEST,
    NodeResourcePublisher,
    amounts,
    patch,
)
from adapters.service.settings.settings import read
from adapters.service.tests.builders import DIALECTS, a_metax_node, a_node
from adapters.service.tests.settling import run_settling, settled
from adapters.wire.kube import DeviceObject, KubeNode, Metadata, NodeStatus
from adapters.wire.records.hardware import NodeHardware
from core.hardware.card import Card, Mode
from core.hardware.quantity import GIB
from core.tests.builders import a_card, like_cards

ALL = frozenset({"volcano", "koordinator", "metax"})


def stating(node: KubeNode, amounts: Mapping[str, str | int | float]) -> KubeNode:
    status = NodeStatus(capacity=dict(amounts), allocatable=dict(amounts))
    return msgspec.structs.replace(node, status=status)


def a_device(name: str, healthy: str) -> DeviceObject:
    devices = [
        {
            "type": "gpu",
            "id": f"GPU-{minor}",
            "minor": minor,
            "health": each == "y",
            "resources": {
                "koordinator.sh/gpu-core": "100",
                "koordinator.sh/gpu-memory": "80Gi",
                "koordinator.sh/gpu-memory-ratio": "100",
            },
        }
        for minor, each in enumerate(healthy)
    ]
    return msgspec.json.decode(
        json.dumps({"metadata": {"name": name}, "spec": {"devices": devices}}), type=DeviceObject
    )


def test_volcano_counts_sharers_percent_and_units() -> None:
    assert amounts(a_node("n", cards=8, memory=40 * GIB), None, DIALECTS, ALL) == {
        "volcano.sh/vgpu-number": 80,
        "volcano.sh/vgpu-cores": 800,
        "volcano.sh/vgpu-memory": 8 * 40960,
    }


def test_koordinator_sums_up_healthy_cards() -> None:
    found = amounts(a_node("n", cards=0), a_device("n", "yyn"), DIALECTS, ALL)

    assert found == {
        "koordinator.sh/gpu": 200,
        "koordinator.sh/gpu-core": 200,
        "koordinator.sh/gpu-memory": 160 * GIB,
        "koordinator.sh/gpu-memory-ratio": 200,
        "koordinator.sh/gpu.shared": 200,
    }


def test_metax_counts_sharers_alone() -> None:
    assert amounts(a_metax_node("n"), None, DIALECTS, ALL) == {"metax-tech.com/sgpu": 32}


def reported(*cards: Card, dialects: frozenset[str]) -> NodeHardware:
    """What an agent reports that describes its cards in some dialects."""
    return NodeHardware(tuple(replace(card, node="n", dialects=dialects) for card in cards))


def test_nvidias_plugin_counts_whole_cards_of_an_agent_that_describes_them_for_it() -> None:
    mig = replace(a_card("m", 2), mode=Mode.MIG)
    broken = replace(a_card("x", 3), healthy=False)
    agent = reported(*like_cards(2), mig, broken, dialects=frozenset({"nvidia"}))
    other = reported(*like_cards(2), dialects=frozenset({"volcano"}))
    bare = a_node("n", cards=0)

    assert amounts(bare, None, DIALECTS, {"nvidia"}, agent) == {"nvidia.com/gpu": 2}
    assert amounts(bare, None, DIALECTS, {"nvidia"}, other) == {}


def test_a_resource_of_two_dialects_has_the_larger_amount() -> None:
    """HAMi counts the sharers of a card where NVIDIA's plugin counts the card."""
    agent = reported(*like_cards(2, slots=10), dialects=frozenset({"nvidia", "hami"}))

    for wanted in (["hami", "nvidia"], ["hami"]):
        found = amounts(a_node("n", cards=0), None, DIALECTS, wanted, agent)
        assert found["nvidia.com/gpu"] == 20


def test_only_published_dialects_have_amounts() -> None:
    assert amounts(a_node("n"), a_device("n", "y"), DIALECTS, ()) == {}
    assert amounts(a_node("n"), None, DIALECTS, {"metax"}) == {}


def test_cards_that_a_kubelet_reset_to_none_come_back() -> None:
    wanted = amounts(a_node("n"), None, DIALECTS, ALL)
    reset = stating(a_node("n"), dict.fromkeys(wanted, "0"))

    assert amounts(reset, None, DIALECTS, ALL) == wanted
    assert patch(reset, wanted) == {name: str(amount) for name, amount in wanted.items()}


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**15)))
def test_a_node_that_has_the_amount_in_any_form_is_not_written_to(stated: dict[str, int]) -> None:
    forms = {
        name: f"{amount // 1000}k" if amount % 1000 == 0 else str(amount)
        for name, amount in stated.items()
    }

    assert patch(stating(a_node("n"), forms), stated) == {}


def test_an_invalid_amount_in_a_status_is_overwritten() -> None:
    assert patch(stating(a_node("n"), {"a": "lots"}), {"a": 1, "b": 0}) == {"a": "1", "b": "0"}


def test_published_dialects_are_set_by_file_and_environment() -> None:
    assert read(None, {}).publish == ()
    assert read(None, {"DRAGOMAN_PUBLISH": "volcano, metax"}).publish == ("volcano", "metax")


# --- the runner -----------------------------------------------------------------------------------


@dataclass
class FakeStatus:
    cache: ClusterCache
    writes: list[Mapping[str, str | None]] = field(default_factory=list)
    failures: int = 0
    ignored: bool = False

    async def publish(
        self,
        name: str,
        resources: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> None:
        self.writes.append(resources)
        if self.failures:
            self.failures -= 1
            raise OSError("no answer")
        if not self.ignored:
            node = self.cache.nodes[name]
            stated = {**(node.status.capacity or {}), **resources}
            left = {key: value for key, value in stated.items() if value is not None}
            noted = {**(node.metadata.annotations or {}), **annotations}
            kept = {key: value for key, value in noted.items() if value is not None}
            made = msgspec.structs.replace(
                node, metadata=msgspec.structs.replace(node.metadata, annotations=kept)
            )
            self.cache.put_node(stating(made, left))


@dataclass
class Rig:
    cache: ClusterCache
    status: FakeStatus
    publisher: NodeResourcePublisher
    failed: list[str]
    time: float = 0.0


def a_rig() -> Rig:
    cache = ClusterCache(lambda node: made.publisher.look_at(node))
    status, failed = FakeStatus(cache), list[str]()
    publisher = NodeResourcePublisher(
        cache,
        status.publish,
        lambda: DIALECTS,
        ALL,
        lambda: made.time,
        lambda _, text: failed.append(text),
    )
    made = Rig(cache, status, publisher, failed)
    return made


def test_a_node_is_written_to_once_and_again_after_a_reset() -> None:
    async def tried() -> None:
        rig = a_rig()
        running = asyncio.create_task(rig.publisher.run())
        rig.cache.put_node(a_node("n"))
        await settled()
        assert len(rig.status.writes) == 1
        rig.time += 3600
        rig.publisher.look_at("n")
        await settled()
        assert len(rig.status.writes) == 1

        rig.cache.put_node(a_node("n"))
        await settled()

        assert len(rig.status.writes) == 2
        running.cancel()

    run_settling(tried())


def test_a_controller_that_keeps_overwriting_amounts_is_answered_ever_more_rarely() -> None:
    async def tried() -> None:
        rig = a_rig()
        rig.status.ignored = True
        rig.cache.put_node(a_node("n"))
        for _ in range(6000):
            await rig.publisher.publish("n")
            rig.time += 1

        assert len(rig.status.writes) < 12 + 6000 / LONGEST

    asyncio.run(tried())


def test_a_failed_write_is_reported_and_repeated() -> None:
    async def tried() -> None:
        rig = a_rig()
        rig.status.failures = 1
        rig.cache.put_node(a_node("n"))

        assert not await rig.publisher.publish("n")
        rig.time += 1
        assert await rig.publisher.publish("n")

        assert rig.failed == ["no answer"]
        assert await rig.publisher.publish("gone")

    asyncio.run(tried())


@pytest.mark.parametrize("turns", range(5))
def test_a_publisher_that_is_woken_just_before_it_is_cancelled_ends(turns: int) -> None:
    async def main() -> None:
        rig = a_rig()
        running = asyncio.create_task(rig.publisher.run())
        await settled()
        rig.publisher.look_at("n1")
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()

        await settled()

        assert running.cancelled()

    run_settling(main())


def without_cards(node: KubeNode) -> KubeNode:
    """The node after its plugin has withdrawn its cards."""
    kept = {key: value for key, value in (node.metadata.annotations or {}).items() if key == MARK}
    metadata = msgspec.structs.replace(node.metadata, annotations=kept)
    return msgspec.structs.replace(node, metadata=metadata)


def left_by(
    *before: KubeNode, after: Mapping[str, str | int | float] | None = None
) -> tuple[Rig, Mapping[str, str | int | float]]:
    """Return the status of a node after its cards were removed.

    Args:
        before: the states of the node while it had its cards, in order.
        after: amounts by another controller, in place of the published ones.
    """

    async def tried() -> tuple[Rig, Mapping[str, str | int | float]]:
        rig = a_rig()
        for node in before:
            rig.cache.put_node(node)
            await rig.publisher.publish("n")
            rig.time += 3600
        bare = without_cards(rig.cache.nodes["n"])
        rig.cache.put_node(bare if after is None else stating(bare, after))
        rig.status.writes.clear()
        for _ in range(3):
            await rig.publisher.publish("n")
            rig.time += 3600
        return rig, rig.cache.nodes["n"].status.allocatable or {}

    return asyncio.run(tried())


def test_a_node_that_lost_its_cards_states_their_resources_no_more() -> None:
    """An amount of 0 would let the kubelet reject pods of other dialects that name the resource."""
    rig, stated = left_by(a_node("n"))

    assert stated == {}
    assert len(rig.status.writes) == 1
    assert MARK not in (rig.cache.nodes["n"].metadata.annotations or {})


def test_amounts_that_a_device_plugin_wrote_over_ours_stay() -> None:
    theirs = {
        name: amount + 1 for name, amount in amounts(a_node("n"), None, DIALECTS, ALL).items()
    }

    _, stated = left_by(a_node("n"), after=theirs)

    assert stated == theirs


def test_amounts_that_a_device_plugin_wrote_before_us_stay() -> None:
    theirs = amounts(a_node("n"), None, DIALECTS, ALL)

    rig, stated = left_by(stating(a_node("n"), theirs))

    assert stated == theirs
    assert rig.status.writes == []


def test_one_resource_that_is_not_wanted_any_more_is_withdrawn_and_the_others_stay() -> None:
    both = msgspec.structs.replace(
        a_node("n"),
        metadata=msgspec.structs.replace(
            a_node("n").metadata,
            annotations={
                **(a_node("n").metadata.annotations or {}),
                MARK: '{"gone.io/x":5,"gone.io/y":6,"volcano.sh/vgpu-number":20}',
            },
        ),
    )
    stated = {**amounts(a_node("n"), None, DIALECTS, ALL), "gone.io/x": 5, "gone.io/y": 7}

    async def tried() -> Rig:
        rig = a_rig()
        rig.cache.put_node(stating(both, stated))
        await rig.publisher.publish("n")
        return rig

    rig = asyncio.run(tried())

    assert rig.status.writes == [{"gone.io/x": None}]
    noted = rig.cache.nodes["n"].metadata.annotations or {}
    assert noted[MARK] == '{"volcano.sh/vgpu-number":20}'


@pytest.mark.parametrize("text", ["", "[]", '{"a":"b"}', "\x00"])
def test_an_unreadable_mark_counts_as_none(text: str) -> None:
    assert written(KubeNode(Metadata(name="n", annotations={MARK: text}))) == {}
