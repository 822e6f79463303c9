"""Bound pods get the mirrored records that their Bindings did not bring."""

import asyncio

import msgspec

from adapters.dialects import registry
from adapters.dialects.dra.tests.builders import a_claim, a_share
from adapters.repairs.mirrored_records import unmirrored
from adapters.service.reconcile.nodes.tests.pods import NODE, bound
from adapters.service.reconcile.nodes.tests.test_claims import slices
from adapters.service.reconcile.nodes.tests.test_controller import Rig, a_rig
from adapters.service.tests.builders import DIALECTS, a_pod, read_pod
from adapters.wire.kube import Metadata, Pod, PodClaim, PodSpec, UnreadPod, annotations
from adapters.wire.records.hardware import DeviceHolding, NodeHardware
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant

FIRST, SECOND = (card.uuid for card in NODE.cards)
VOLCANO = "volcano.sh/vgpu-ids-new"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
MARK = registry.mirror_mark("volcano")
SHARE = {VOLCANO: f"{FIRST},NVIDIA,2048,0:", MARK: "true"}
TARGETS = [each for each in DIALECTS if each.name == "volcano"]


def consumer(name: str, said: dict[str, str] | None = None) -> Pod:
    claims = (PodClaim(name="c", resource_claim_name="c"),)
    made = Pod(Metadata(name=name, namespace="default", uid=f"u-{name}"), PodSpec())
    spec = msgspec.structs.replace(made.spec, resource_claims=claims)
    return bound(msgspec.structs.replace(made, spec=spec), "n1", said)


async def with_claim(*pods: Pod) -> Rig:
    rig = await a_rig(mirrored=["volcano"])
    rig.cache.claims.put_slice(slices())  # type: ignore[arg-type]
    claim = a_claim(a_share("gpu-0", memory="2Gi", cores="0"), node="n1")
    metadata = msgspec.structs.replace(claim.metadata, namespace="default")
    rig.cache.claims.put_claim(msgspec.structs.replace(claim, metadata=metadata))
    rig.see(*pods)
    return rig


def shown(rig: Rig, name: str) -> dict[str, str]:
    return {key: text for key, text in annotations(rig.pods.there[name]).items() if key in SHARE}


def test_a_pod_shows_what_its_claim_has_and_only_one_pod_of_a_claim_does() -> None:
    async def tried() -> None:
        rig = await with_claim(consumer("b"), consumer("a"))

        await rig.reconciler.reconcile("n1")
        await rig.reconciler.reconcile("n1")  # the cache is late

        assert (shown(rig, "a"), shown(rig, "b")) == (SHARE, {})
        assert rig.pods.writes == rig.reporter.counts.count("mirrored") == 1
        assert rig.reporter.events == []
        rig.see(rig.pods.there["a"])
        await rig.reconciler.process("n1")
        assert rig.pods.writes == 1

    asyncio.run(tried())


def test_a_mirror_that_was_edited_is_written_again() -> None:
    async def tried() -> None:
        rig = await with_claim(consumer("a", {**SHARE, VOLCANO: f"{FIRST},NVIDIA,1,0:"}))

        await rig.reconciler.reconcile("n1")

        assert shown(rig, "a") == SHARE

    asyncio.run(tried())


def test_a_mirror_that_moves_to_another_pod_of_its_claim_is_counted_once() -> None:
    async def tried() -> None:
        rig = await with_claim(consumer("b"))
        await rig.reconciler.reconcile("n1")
        rig.see(rig.pods.there["b"], consumer("a"))

        await rig.reconciler.reconcile("n1")

        assert (shown(rig, "a"), shown(rig, "b")) == (SHARE, {})

    asyncio.run(tried())


def test_what_the_ledger_does_not_ask_for_is_removed_after_all_that_it_asks_for() -> None:
    right = {VOLCANO: f"{FIRST},NVIDIA,1024,0:", MARK: "true"}
    forged = {ALLOCATED: "{}", registry.mirror_mark("koordinator"): "true"}
    targets = [each for each in DIALECTS if each.name in registry.mirror_targets()]
    hami = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024}
    pods = [
        bound(read_pod(a_pod(name, limits=hami)), "n1", said)
        for name, said in (("p", {**right, **forged}), ("q", {}))
    ]

    written, removed = unmirrored(holding("hami", "p", "q"), pods, (), DIALECTS, targets)

    assert written.annotations == right
    assert removed.annotations == dict.fromkeys(forged)


def test_a_mark_beside_a_pods_own_record_is_removed_and_the_record_stays() -> None:
    pod = bound(read_pod(a_pod("p", memory=1024)), "n1", SHARE)

    (repair,) = unmirrored(holding("volcano", "p"), (pod,), (), DIALECTS, TARGETS)

    assert repair.annotations == {MARK: None}


def holding(dialect: str, *names: str) -> NodeLedger:
    """A ledger in which each of these pods has 1 GiB of the first card."""
    ledger = NodeLedger.of(NODE)
    for name in names:
        grant = Grant("main", FIRST, 1 << 30, 0)
        ledger = ledger.adopt(Allocation(f"uid-{name}", f"d/{name}", dialect, "n1", (grant,)))
    return ledger


def test_the_record_of_another_component_stays() -> None:
    async def tried() -> None:
        theirs = {VOLCANO: f"{SECOND},NVIDIA,1,0:"}
        rig = await with_claim(consumer("a", theirs))

        await rig.reconciler.reconcile("n1")

        assert shown(rig, "a") == theirs

    asyncio.run(tried())


def test_a_pod_that_changed_meanwhile_is_not_written() -> None:
    async def tried() -> None:
        for changed in (
            bound(consumer("a"), "n1", phase="Succeeded"),
            bound(consumer("a"), "n2"),
            consumer("a", SHARE),
        ):
            rig = await with_claim(consumer("a"))
            rig.pods.there["a"] = changed

            await rig.reconciler.reconcile("n1")

            assert rig.pods.writes == 0

    asyncio.run(tried())


def test_nothing_is_written_where_a_holder_is_gone_from_the_newest_ledger() -> None:
    async def tried() -> None:
        rig = await with_claim(consumer("a"))
        await rig.reconciler.reconcile("n1")
        (repair,) = unmirrored(await rig.ledger(), (), [consumer("a")], DIALECTS, TARGETS)
        stored = await rig.store.read("n1")
        assert stored is not None
        await rig.store.write(stored.ledger.release("u-claim"), stored.version)
        rig.pods.there["a"] = consumer("a")

        assert not await rig.reconciler._writer.mirror(repair, "n1")
        assert rig.pods.writes == 1

    asyncio.run(tried())


def test_a_pod_of_a_device_plugin_takes_every_card_that_it_may_have_until_the_kubelet_says() -> (
    None
):
    async def tried() -> None:
        rig = await a_rig(mirrored=["volcano", "koordinator"])
        rig.see(bound(read_pod(a_pod("p0", limits={"nvidia.com/gpu": 1})), "n1"))

        await rig.reconciler.reconcile("n1")
        before = annotations(rig.pods.there["p0"])[VOLCANO]
        holding = DeviceHolding("uid-p0", "main", "nvidia.com/gpu", 1, (SECOND,))
        rig.cache.put_hardware("n1", NodeHardware(holdings=(holding,)))
        await rig.reconciler.reconcile("n1")

        assert before == f"{FIRST},NVIDIA,8192,100:{SECOND},NVIDIA,8192,100:"
        assert shown(rig, "p0") == {VOLCANO: f"{SECOND},NVIDIA,8192,100:", MARK: "true"}

    asyncio.run(tried())


def test_pods_that_cannot_be_read_or_hold_nothing_get_none() -> None:
    held = Allocation("u-a", "default/a", "unknown", "n1", (Grant("c", FIRST, 1 << 30, 0),))
    ledger = NodeLedger.of(NODE).adopt(held)
    unread = UnreadPod(consumer("a").metadata, PodSpec(node_name="n1"), problem="x")
    both = a_pod("a", limits={"volcano.sh/vgpu-number": 1, "metax-tech.com/sgpu": 1})
    mixed = bound(read_pod(both), "n1")
    renamed = msgspec.structs.replace(mixed.metadata, uid="u-a")

    for pod in (unread, msgspec.structs.replace(mixed, metadata=renamed), consumer("b")):
        assert list(unmirrored(ledger, (pod,), (), DIALECTS, TARGETS)) == []
    assert list(unmirrored(ledger, (consumer("a"),), (), DIALECTS, ())) == []


def test_a_pod_that_cannot_be_changed_holds_up_no_other() -> None:
    async def tried() -> None:
        hami = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024}
        rig = await with_claim(consumer("a"), bound(read_pod(a_pod("p", limits=hami)), "n1"))
        rig.pods.frozen.add("a")

        settled = await rig.reconciler.reconcile("n1")

        assert not settled
        assert (shown(rig, "a"), shown(rig, "p").keys()) == ({}, SHARE.keys())

    asyncio.run(tried())
