import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from adapters.agent.hook.policy import Policy, RejectError
from adapters.agent.injection.adjustment import Equipment, plan_share
from adapters.agent.injection.hami_core import NEUTRAL
from adapters.agent.nri.model import Adjustment, NriContainer, PodSandbox
from adapters.dra_driver import preparation
from adapters.dra_driver.preparation import ClaimRef
from adapters.dra_driver.prepared import PreparedDevice
from adapters.dra_driver.tests.node import CARDS, NAMESPACE, POD_UID, DriverNode, grant
from core.requests.limits import GrantError, limits

POD = PodSandbox(name="train", uid=POD_UID, namespace=NAMESPACE)


@pytest.fixture
def node(tmp_path: Path) -> DriverNode:
    return DriverNode(tmp_path)


def prepare(node: DriverNode, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
    return asyncio.run(node.preparer().prepare(ref))


def refusal(node: DriverNode, ref: ClaimRef) -> str:
    with pytest.raises(GrantError) as caught:
        prepare(node, ref)
    assert not list(node.cdi.glob("*"))
    return str(caught.value)


def edits(node: DriverNode, ref: ClaimRef) -> list[Any]:
    """The devices of a claim's file."""
    text = (node.cdi / f"dragoman.dev-share_{ref.uid}.json").read_text()
    return list(json.loads(text).get("devices", ()))


def env(device: Any) -> dict[str, str]:
    return dict(line.split("=", 1) for line in device["containerEdits"]["env"])


def one_share(node: DriverNode) -> ClaimRef:
    half = grant(1, 8, 20)
    ref = node.add_claim("a", half)
    node.commit(ref, half)
    node.add_pod(main=[{"name": "a"}])
    return ref


def test_a_claim_is_prepared_for_its_container(node: DriverNode) -> None:
    ref = one_share(node)

    found = prepare(node, ref)

    name = f"{ref.uid}-main"
    cdi = (f"dragoman.dev/share={name}",)
    assert found == (PreparedDevice("r0", "n1", "gpu-1", "share-0", cdi),)
    (device,) = edits(node, ref)
    assert device["name"] == name
    assert device["annotations"]["dragoman.dev/pod-uid"] == POD_UID
    assert env(device)["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    assert env(device)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "8192m"
    assert env(device)["DRAGOMAN_CLAIM"] == ref.uid
    nodes = device["containerEdits"]["deviceNodes"]
    assert [each["path"] for each in nodes] == ["/dev/null", "/dev/zero"]


def test_the_environment_is_that_of_the_other_dialects(node: DriverNode) -> None:
    """The plan of the NRI hook for the same grants, with what weakens the limits neutralized."""
    ref = one_share(node)
    prepare(node, ref)
    authors = NriContainer(name="main", env=tuple(f"{name}=x" for name in NEUTRAL))
    equipment = Equipment(CARDS, {"nvidia": node.profile()})

    plan = plan_share(limits([grant(1, 8, 20)], "main", CARDS), POD, authors, equipment)

    (device,) = edits(node, ref)
    assert env(device) == {**plan.env, "DRAGOMAN_CLAIM": ref.uid}
    mounts = device["containerEdits"]["mounts"]
    assert [(each["containerPath"], each["hostPath"]) for each in mounts] == [
        (each.destination, each.source) for each in plan.mounts
    ]
    assert (node.folder / "containers" / f"{POD_UID}_main").is_dir()


def test_a_prepared_claim_is_found_again_and_its_running_container_keeps_its_folder(
    node: DriverNode,
) -> None:
    ref = one_share(node)
    first = prepare(node, ref)
    written = node.folder / "containers" / f"{POD_UID}_main" / "region"
    written.touch()
    node.objects.claims.clear()

    assert prepare(node, ref) == first
    assert written.exists()


def test_a_file_that_cannot_be_read_is_prepared_again(node: DriverNode) -> None:
    ref = one_share(node)
    first = prepare(node, ref)
    next(node.cdi.iterdir()).write_text("{")

    assert prepare(node, ref) == first
    assert edits(node, ref)


def test_an_unprepared_claim_leaves_nothing(node: DriverNode) -> None:
    ref = one_share(node)
    prepare(node, ref)

    for _ in range(2):
        asyncio.run(node.preparer().unprepare(ref))

    assert list(node.cdi.iterdir()) == []
    assert not (node.folder / "containers" / f"{POD_UID}_main").exists()


def test_two_claims_of_a_container_are_one_share(node: DriverNode) -> None:
    """The runtime applies one file after the other, and the last value of a variable would win."""
    first, second = node.add_claim("a", grant(1, 8)), node.add_claim("b", grant(0, 4))
    node.commit(first, grant(1, 8))
    node.commit(second, grant(0, 4))
    node.add_pod(main=[{"name": "a"}, {"name": "b"}])

    (one,), (other,) = prepare(node, first), prepare(node, second)

    assert (len(one.cdi), other.cdi) == (1, ())
    (device,) = edits(node, first)
    assert edits(node, second) == []
    assert env(device)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
    assert env(device)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"
    assert env(device)["CUDA_DEVICE_MEMORY_LIMIT_1"] == "8192m"


def test_two_claims_with_the_same_card_in_a_container_are_refused(node: DriverNode) -> None:
    first, second = node.add_claim("a", grant(1, 8)), node.add_claim("b", grant(1, 4))
    node.commit(first, grant(1, 8))
    node.commit(second, grant(1, 4))
    node.add_pod(main=[{"name": "a"}, {"name": "b"}])

    assert "card GPU-1 is granted twice" in refusal(node, first)


def test_each_container_has_its_own_request_of_a_claim(node: DriverNode) -> None:
    grants = grant(0, 8), grant(1, 4)
    ref = node.add_claim("a", *grants)
    node.commit(ref, *grants)
    node.add_pod(main=[{"name": "a", "request": "r1"}], second=[{"name": "a", "request": "r0"}])

    zero, one = prepare(node, ref)

    assert zero.cdi == (f"dragoman.dev/share={ref.uid}-second",)
    assert one.cdi == (f"dragoman.dev/share={ref.uid}-main",)
    assert {each["name"]: env(each)["NVIDIA_VISIBLE_DEVICES"] for each in edits(node, ref)} == {
        f"{ref.uid}-main": "GPU-1",
        f"{ref.uid}-second": "GPU-0",
    }


def test_a_share_of_two_containers_is_refused(node: DriverNode) -> None:
    ref = one_share(node)
    node.add_pod(main=[{"name": "a"}], second=[{"name": "a"}])

    assert "containers main and second use request r0" in refusal(node, ref)


def test_a_claim_of_two_pods_is_refused(node: DriverNode) -> None:
    one_share(node)
    ref = node.add_claim("a", grant(1, 8, 20), pods=("train", "second"))

    assert "reserved for 2 pods" in refusal(node, ref)


def test_a_claim_without_an_allocation_in_the_ledger_is_refused(
    node: DriverNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "LEDGER_WAIT", 0.01)
    ref = node.add_claim("a", grant(1, 8))
    node.add_pod(main=[{"name": "a"}])

    assert refusal(node, ref) == "claim ai/a: the ledger has no allocation of it"


def test_a_claim_waits_for_the_ledger(node: DriverNode) -> None:
    ref = node.add_claim("a", grant(1, 8))
    node.add_pod(main=[{"name": "a"}])

    async def scenario() -> tuple[PreparedDevice, ...]:
        waiting = asyncio.ensure_future(node.preparer().prepare(ref))
        await asyncio.sleep(0)
        node.commit(ref, grant(1, 8))
        return await waiting

    assert len(asyncio.run(scenario())) == 1


def test_a_claim_that_waits_for_the_ledger_delays_no_other_claim(node: DriverNode) -> None:
    late = node.add_claim("late", grant(1, 8))
    ready = node.add_claim("ready", grant(0, 8))
    node.add_pod(main=[{"name": "ready"}], beside=[{"name": "late"}])
    node.commit(ready, grant(0, 8))

    async def scenario() -> tuple[PreparedDevice, ...]:
        preparer = node.preparer()
        waiting = asyncio.ensure_future(preparer.prepare(late))
        await asyncio.sleep(0)
        found = await preparer.prepare(ready)
        assert not waiting.done()
        node.commit(late, grant(1, 8))
        await waiting
        return found

    assert len(asyncio.run(scenario())) == 1


def test_a_share_of_an_over_allocated_card_is_refused(node: DriverNode) -> None:
    """Without the arbiter a scheduler allocates what a pod of another dialect has."""
    ref = one_share(node)
    node.commit(ClaimRef("ai", "other", "uid-other"), grant(1, 76))

    assert "84.0 of 80.0 GiB are allocated" in refusal(node, ref)


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ((grant(0, 8),), "grants nothing of card GPU-1"),
        ((), "grants nothing of card GPU-1"),
    ],
)
def test_a_claim_that_differs_from_the_ledger_is_refused(
    node: DriverNode, held: tuple[Any, ...], reason: str
) -> None:
    ref = node.add_claim("a", grant(1, 8))
    node.add_pod(main=[{"name": "a"}])
    node.commit(ref, *held)

    assert reason in refusal(node, ref)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"unread": "unclear", "blocked": frozenset({"GPU-1"})}, "unclear"),
        ({"release_by": 9}, "released"),
    ],
)
def test_a_claim_that_the_ledger_does_not_grant_is_refused(
    node: DriverNode, more: dict[str, Any], reason: str
) -> None:
    ref = node.add_claim("a", grant(1, 8))
    node.add_pod(main=[{"name": "a"}])
    node.commit(ref, *(() if "unread" in more else (grant(1, 8),)), **more)

    assert reason in refusal(node, ref)


def test_a_claim_or_pod_that_was_replaced_is_refused(node: DriverNode) -> None:
    ref = one_share(node)
    earlier = ClaimRef(ref.namespace, ref.name, "earlier")

    assert "its uid is uid-a" in refusal(node, earlier)


# The agent's hook, for the same container.


def policy(node: DriverNode) -> Policy:
    equipment = Equipment(CARDS, {"nvidia": node.profile()})
    return Policy(node.grants, lambda: equipment, prepared=node.cdi)


def applied(device: Any, *more: str, name: str = "main") -> NriContainer:
    """A container to which the runtime has applied a file."""
    variables = (*more, *device["containerEdits"]["env"])
    return NriContainer("c", "p", name, env=variables)


def test_the_hook_leaves_a_prepared_container_its_share(node: DriverNode) -> None:
    ref = one_share(node)
    prepare(node, ref)
    by = policy(node)
    (device,) = edits(node, ref)

    found = by.adjust(by.facts(POD, applied(device)))

    assert isinstance(found, Adjustment)
    assert found.env == {}, "NVIDIA_VISIBLE_DEVICES is not set to void"
    assert by.bypass_of(by.facts(POD, applied(device))) == ""


def test_a_restarted_container_gets_an_empty_folder(node: DriverNode) -> None:
    ref = one_share(node)
    prepare(node, ref)
    (node.folder / "containers" / f"{POD_UID}_main" / "region").touch()
    by = policy(node)
    (device,) = edits(node, ref)

    by.adjust(by.facts(POD, applied(device)))

    assert list((node.folder / "containers" / f"{POD_UID}_main").iterdir()) == []


def test_an_author_cannot_take_a_share_that_is_prepared_for_another_container(
    node: DriverNode,
) -> None:
    ref = one_share(node)
    prepare(node, ref)
    by = policy(node)
    (device,) = edits(node, ref)
    others = [
        (POD, applied(device, name="second")),
        (PodSandbox(name="train", uid="other", namespace="ai"), applied(device)),
        (POD, NriContainer(name="main", env=("DRAGOMAN_CLAIM=uid-b",))),
        (POD, NriContainer(name="main", env=("DRAGOMAN_CLAIM=../../etc",))),
    ]

    for pod, container in others:
        with pytest.raises(RejectError, match="claim"):
            by.adjust(by.facts(pod, container))


def test_a_container_with_a_claim_and_a_share_of_a_dialect_is_rejected(node: DriverNode) -> None:
    ref = one_share(node)
    prepare(node, ref)
    node.commit(ClaimRef("ai", "train", POD_UID), grant(0, 1))
    by = policy(node)
    (device,) = edits(node, ref)

    with pytest.raises(RejectError, match="one by a ResourceClaim: use one"):
        by.adjust(by.facts(POD, applied(device)))
