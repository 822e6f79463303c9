"""Pods with ResourceClaims get the devices of pods of lower priority, where that is sure."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra.claims import Claim, allocated
from adapters.dialects.dra.tests.builders import a_card_device, a_result
from adapters.service.decide.commit.attempt import ClaimOption, ClaimRefusal
from adapters.service.decide.commit.claim_review import holdings
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests import kube_bodies
from adapters.service.reconcile.preemptor import DELAY, MARK, READ, Preemptor
from adapters.service.reconcile.tests.preempted_cluster import Rig, a_rig, rejected
from adapters.service.tests.builders import Json, a_node, a_pod, body, decoded, read_pod
from adapters.service.tests.claims import slice_of
from adapters.wire.dra import DeviceClass, ListedClaim
from adapters.wire.kube import KubeNode, Metadata, NodeSpec, NodeStatus
from adapters.wire.kube_policy import Budget
from core.durations import SECOND
from core.requests.request import PodRef

USUAL = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"

NOTHING_ELSE = "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are"

DENIED = (
    'running PreBind plugin "DynamicResources": add allocation and reservation to claim default/c:'
    ' admission webhook "claims.dragoman.dev" denied the request: dragoman: n1: card GPU-n1-0'
    " cannot take default/c: in use"
)


def a_claim(name: str, *results: Json, pod: str = "", count: int = 1) -> ListedClaim:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    allocation = {
        "devices": {"results": list(results)},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    consumer = {"resource": "pods", "name": pod, "uid": f"uid-{pod}"}
    thing = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": allocation, "reservedFor": [consumer]} if results else {},
    }
    return msgspec.json.decode(body(thing), type=ListedClaim)


def waiting(
    name: str, *claims: str, priority: int = 10, message: str = NOTHING_ELSE, **spec: object
) -> Json:
    """A pod whose claims its scheduler could not allocate."""
    reason = "Unschedulable" if message == NOTHING_ELSE else "SchedulerError"
    rejected = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    pod = a_pod(name, limits={}, priority=priority)
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    return {
        **pod,
        "spec": {**pod["spec"], "resourceClaims": entries, **spec},
        "status": {**pod["status"], "conditions": [rejected]},
    }


class ClaimRig:
    """A service that knows a class, the slices of its node and claims, and its preemptor."""

    def __init__(self, rig: Rig, expression: str, resource: str) -> None:
        self.rig = rig
        self.cluster = rig.bench.cluster
        self.claims = ClaimCache(lambda _: None)
        self.claims.put_slice(slice_of("n1"))
        selectors = [{"cel": {"expression": expression}}]
        spec = {"selectors": selectors, "extendedResourceName": resource}
        made = {"metadata": {"name": "gpu"}, "spec": spec}
        self.claims.put_class(msgspec.convert(made, DeviceClass))
        self.cluster.claims = self.claims
        self.cluster.kube_nodes = {"n1": KubeNode(Metadata(name="n1"))}
        rig.preemptor = Preemptor(rig.bench.service, rig.evictor, self.unbound)

    def unbound(self) -> Sequence[Any]:
        return [pod for pod in self.cluster.pods() if not pod.spec.node_name]

    async def run_claim(self, name: str, *devices: str, priority: int = 0) -> None:
        """A pod runs whose claims, named ``claim-*``, of its own have a device each."""
        names = [f"claim-{name}", *(f"claim-{name}-{device}" for device in devices[1:])]
        pod = waiting(name, *names, priority=priority, nodeName="n1")
        self.cluster.put(read_pod({**pod, "status": {"phase": "Running"}}))
        for claim, device in zip(names, devices, strict=True):
            await self.allocate(a_claim(claim, a_result(device), pod=name))

    async def allocate(self, claim: ListedClaim) -> ClaimOption | ClaimRefusal:
        """A scheduler has allocated a claim: the arbiter's answer."""
        known = allocated(claim)
        assert known is not None
        ledgers = self.rig.bench.service.ledgers
        nodes = {"n1": ledgers.inventory.ledger("n1").node}
        (held,) = holdings(known, nodes, self.claims.devices)
        answer = await self.rig.bench.service.committer.commit_claim(ClaimOption(known, held))
        if isinstance(answer, ClaimOption):
            self.claims.put_claim(claim)
        return answer

    def put(self, pod: Json, *, count: int = 1) -> None:
        """A pod and its claims wait."""
        for each in pod["spec"]["resourceClaims"]:
            self.claims.put_claim(a_claim(each["name"], count=count))
        self.cluster.put(read_pod(pod))

    async def rounds(self, number: int = 2, pause: int = DELAY) -> None:
        for _ in range(number):
            await self.rig.preemptor.round()
            self.rig.bench.clock.time += pause

    async def end(self, name: str) -> None:
        """A pod's containers have stopped, and Kubernetes deletes its claim."""
        for claim in [*self.claims.of_pod(f"uid-{name}")]:
            self.claims.drop_claim(claim.name)
            await self.rig.bench.service.committer.release(claim.uid, "n1")
        self.rig.end(name)


Test = Callable[[ClaimRig], Coroutine[Any, Any, None]]


def on(
    *nodes: KubeNode, expression: str = USUAL, budgets: Sequence[Budget] = (), resource: str = ""
) -> Callable[[Test], None]:
    def runs(test: Test) -> None:
        async def main() -> None:
            await test(ClaimRig(await a_rig(*nodes, budgets=budgets), expression, resource))

        asyncio.run(main())

    return runs


@pytest.mark.parametrize("message", [NOTHING_ELSE, DENIED])
def test_a_pod_goes_and_its_card_is_held_for_the_claim(message: str) -> None:
    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        rig = here.rig
        await rig.run_pod(a_pod("high", memory=5000, priority=20), "n1")
        await rig.run_pod(a_pod("low", memory=5000), "n1")
        here.put(waiting("urgent", "c", message=message))

        await here.rounds()

        assert rig.evictor.evicted == ["low"]
        assert rig.holders() == ["high", "low"]
        assert MARK in (rig.pod("urgent").metadata.annotations or {})
        await here.end("low")
        await here.rounds(1)
        assert rig.holders() == ["high", "c"]
        assert rig.preemptor.waiting == 0
        held = rig.bench.service.ledgers.inventory.ledger("n1").allocations["uid-c"]
        option = ClaimOption(Claim("uid-c", "default/c"), held)
        assert await rig.bench.service.committer.commit_claim(option) == option


def test_a_pod_whose_claim_has_the_card_goes_if_its_priority_is_lower() -> None:
    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        await here.run_claim("high", "gpu-0", priority=20)
        await here.run_claim("low", "gpu-1")
        here.put(waiting("urgent", "c"))

        await here.rounds()

        assert here.rig.evictor.evicted == ["low"]
        await here.rounds(1)
        assert here.rig.holders() == ["claim-high", "claim-low"]
        await here.end("low")
        await here.rounds(1)
        assert here.rig.holders() == ["claim-high", "c"]


def test_a_pod_of_a_claim_that_a_budget_protects_stays() -> None:
    selector = {"matchLabels": {"app": "api"}}
    budget = {"metadata": {"namespace": "default"}, "spec": {"selector": selector}}

    @on(a_node("n1", cards=2), budgets=[msgspec.convert(budget, Budget)])
    async def _(here: ClaimRig) -> None:
        for number in range(2):
            await here.run_claim(f"low-{number}", f"gpu-{number}")
            pod = here.rig.pod(f"low-{number}")
            metadata = msgspec.structs.replace(pod.metadata, labels={"app": "api"})
            here.cluster.put(msgspec.structs.replace(pod, metadata=metadata))
        here.put(waiting("urgent", "c"))

        await here.rounds()

        assert here.rig.outcomes == []  # the API server is not even asked


def test_the_claims_of_one_pod_become_free_together() -> None:
    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        await here.run_claim("low", "gpu-0", "gpu-1")
        here.put(waiting("urgent", "c"), count=2)

        await here.rounds()

        assert here.rig.evictor.evicted == ["low"]
        await here.end("low")
        await here.rounds(1)
        assert here.rig.holders() == ["c"]


def test_a_claim_that_another_pod_uses_too_is_not_freed() -> None:
    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        await here.run_claim("low", "gpu-0", "gpu-1")
        both = a_claim("claim-low", a_result("gpu-0"), pod="high")
        here.claims.put_claim(both)
        here.put(waiting("urgent", "c"), count=2)

        await here.rounds()

        assert here.rig.evictor.dry == []


def test_a_claim_that_the_pod_uses_itself_is_not_freed_for_it() -> None:
    """It needs the card of that claim too."""

    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        await here.run_claim("high", "gpu-0", priority=20)
        await here.run_claim("low", "gpu-1")
        here.claims.put_claim(a_claim("c"))
        here.cluster.put(read_pod(waiting("urgent", "claim-low", "c")))

        await here.rounds()

        assert here.rig.evictor.dry == []


def by_class(name: str, **spec: object) -> Json:
    """A pod whose resource the class names, that no node advertises."""
    plain = a_pod(name, limits={"nvidia.com/gpu": 1}, priority=10)
    return waiting(name) | {"spec": {**plain["spec"], **spec}}


def test_a_pod_goes_for_one_whose_claim_is_made_when_it_is_bound() -> None:
    """Until then the card is reserved for it: another claim does not get it."""

    @on(a_node("n1", cards=2), resource="nvidia.com/gpu")
    async def _(here: ClaimRig) -> None:
        await here.run_claim("high", "gpu-0", priority=20)
        await here.run_claim("low", "gpu-1")
        here.cluster.put(read_pod(by_class("urgent")))

        await here.rounds()

        assert here.rig.evictor.evicted == ["low"]
        await here.end("low")
        await here.rounds(1)
        other = await here.allocate(a_claim("other", a_result("gpu-1"), pod="other"))
        assert isinstance(other, ClaimRefusal)
        await here.rounds(1)
        own = await here.allocate(a_claim("urgent-gpu", a_result("gpu-1"), pod="urgent"))
        assert isinstance(own, ClaimOption)
        bound = by_class("urgent", nodeName="n1")
        here.cluster.put(read_pod(bound))
        await here.rounds(1)
        assert here.rig.preemptor.waiting == 0
        assert here.rig.holders() == ["claim-high", "urgent-gpu"]
        assert [each for each in here.rig.outcomes if each[1] == "held"] == [
            ("preempt", "held", "urgent")
        ]


@pytest.mark.parametrize(("stated", "fits"), [("0", ["n1"]), ("2", [])])
def test_a_resource_that_a_class_names_fits_beside_a_claim_where_no_plugin_states_it(
    stated: str, fits: list[str]
) -> None:
    """The scheduler makes a claim of it there; elsewhere the kubelet would choose the card."""

    @on(a_node("n1", cards=2), resource="nvidia.com/gpu")
    async def _(here: ClaimRig) -> None:
        await here.run_claim("low", "gpu-0")
        plain = by_class("plain")
        status = NodeStatus(
            capacity={"nvidia.com/gpu": "2"}, allocatable={"nvidia.com/gpu": stated}
        )
        here.cluster.kube_nodes = {"n1": KubeNode(Metadata(name="n1"), status=status)}
        here.cluster.put(read_pod(plain))

        answer = await decoded(
            KubeExtender(here.rig.bench.service).filter(kube_bodies.names(plain, "n1"))
        )

        assert answer["NodeNames"] == fits


async def reserve(here: ClaimRig) -> None:
    """``gpu-1`` for a pod whose claim is made when it is bound."""
    await here.run_claim("high", "gpu-0", priority=20)
    await here.run_claim("low", "gpu-1")
    here.cluster.put(read_pod(by_class("urgent")))
    await here.rounds()
    await here.end("low")
    await here.rounds(1)
    assert here.rig.holders() == ["claim-high", "urgent"]


@pytest.mark.parametrize("device", ["gpu-0", "gpu-1"])
def test_no_more_is_reserved_once_the_claim_has_a_card(device: str) -> None:
    """The scheduler may choose another card than the reserved one, and bind the pod much later."""

    @on(a_node("n1", cards=2), resource="nvidia.com/gpu")
    async def _(here: ClaimRig) -> None:
        await reserve(here)
        await here.end("high")

        own = await here.allocate(a_claim("urgent-gpu", a_result(device), pod="urgent"))
        assert isinstance(own, ClaimOption)
        await here.rounds()

        assert here.rig.holders() == ["urgent-gpu"]


@pytest.mark.parametrize("what", ["deleted", "bound elsewhere", "late"])
def test_a_reservation_ends_where_no_claim_takes_it(what: str) -> None:
    @on(a_node("n1", cards=2), resource="nvidia.com/gpu")
    async def _(here: ClaimRig) -> None:
        await reserve(here)

        if what == "deleted":
            here.rig.end("urgent")
        elif what == "late":
            here.rig.sleep(100)
        else:
            here.cluster.put(read_pod(by_class("urgent", nodeName="n2")))
        await here.rounds()

        assert here.rig.holders() == ["claim-high"]
        assert here.rig.evictor.evicted == ["low"]


def test_a_claim_gets_no_card_of_another_claim_whose_uid_it_names_as_its_pod() -> None:
    @on(a_node("n1", cards=2), resource="nvidia.com/gpu")
    async def _(here: ClaimRig) -> None:
        await here.run_claim("high", "gpu-0")

        claim = a_claim("other", a_result("gpu-0"), pod="claim-high")

        assert isinstance(await here.allocate(claim), ClaimRefusal)


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        ("example.com/gpu", {}),
        ("nvidia.com/gpu", {"schedulerName": "koord-scheduler"}),
        ("nvidia.com/gpu", {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}),
    ],
    ids=["no class names it", "a scheduler that makes no claims", "beside its own claim"],
)
def test_no_pod_goes_for_a_resource_where_no_claim_alone_is_made_of_it(
    resource: str, spec: Json
) -> None:
    @on(a_node("n1", cards=2), resource=resource)
    async def _(here: ClaimRig) -> None:
        for number in range(2):
            await here.run_claim(f"low-{number}", f"gpu-{number}")
        here.claims.put_claim(a_claim("c"))
        here.cluster.put(read_pod(by_class("urgent", **spec)))

        await here.rounds()

        assert here.rig.evictor.dry == []


def test_a_claim_that_is_about_to_be_freed_is_waited_for() -> None:
    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        for number in range(2):
            await here.run_claim(f"low-{number}", f"gpu-{number}")
        pod = here.rig.pod("low-1")
        await here.rig.evictor.evict(PodRef("default", "low-1", pod.metadata.uid))
        here.rig.evictor.evicted.clear()
        here.put(waiting("urgent", "c"))

        await here.rounds()

        assert here.rig.evictor.evicted == []


def test_a_share_beside_a_claim_is_helped_as_its_scheduler_asked() -> None:
    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        for name in ("low-1", "low-2"):
            await here.rig.run_pod(a_pod(name, memory=5000), "n1")
        urgent = rejected("urgent")
        urgent["spec"]["resourceClaims"] = [{"name": "nic", "resourceClaimName": "nic"}]
        await here.rig.refuse(urgent)

        await here.rounds(1)

        assert here.rig.evictor.evicted == ["low-2"]


OTHER = "device.attributes['gpu.nvidia.com'].cores > 3"


@pytest.mark.parametrize(
    ("pod", "expression"),
    [
        (waiting("urgent", "c"), OTHER),
        (waiting("urgent", "c", priority=0), USUAL),
        (waiting("urgent", "c", preemptionPolicy="Never"), USUAL),
        (waiting("urgent", "c", schedulerName="koord-scheduler"), USUAL),
        (waiting("urgent", "c", message=f"0/2{NOTHING_ELSE[3:]}"), USUAL),
        (waiting("urgent", "c", message="0/1 nodes are available: 1 Insufficient cpu."), USUAL),
        (waiting("urgent", "c", nodeSelector={"a": "b"}), USUAL),
        (waiting("urgent", "c", message=DENIED.replace("n1:", "n2:")), USUAL),
        (waiting("urgent", "c", "d", "e"), USUAL),
    ],
)
def test_no_pod_goes_where_a_fit_after_it_is_not_sure(pod: Json, expression: str) -> None:
    @on(a_node("n1", cards=2), expression=expression)
    async def _(here: ClaimRig) -> None:
        for name in ("low-1", "low-2"):
            await here.rig.run_pod(a_pod(name, memory=5000), "n1")
        here.put(pod)

        await here.rounds()

        assert here.rig.evictor.dry == []


@pytest.mark.parametrize("count", [1, 2])
def test_no_pod_goes_where_the_scheduler_may_choose_another_device_again_and_again(
    count: int,
) -> None:
    """It does not see that a share has gpu-0, and the arbiter has no device that is as good."""

    @on(a_node("n1", cards=3))
    async def _(here: ClaimRig) -> None:
        size = "8Gi" if count == 2 else "7Gi"
        cards = [a_card_device(f"gpu-{i}", f"GPU-n1-{i}", size if i else "8Gi") for i in range(3)]
        here.claims.put_slice(slice_of("n1", *cards))
        for name, priority in (("high", 20), ("low-1", 0), ("low-2", 0)):
            await here.rig.run_pod(a_pod(name, memory=5000, priority=priority), "n1")
        here.put(waiting("urgent", "c"), count=count)

        await here.rounds()

        assert here.rig.evictor.dry == []


def test_thousands_of_waiting_pods_are_read_a_few_at_a_time_and_each_in_turn() -> None:
    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        for name in ("low-1", "low-2"):
            await here.rig.run_pod(a_pod(name, memory=5000), "n1")
        for number in range(2 * READ):
            here.put(waiting(f"vain-{number}", "c", message=f"0/2{NOTHING_ELSE[3:]}"))
        here.put(waiting("urgent", "d", priority=1))

        await here.rounds(1)
        assert len(here.rig.bench.service.rejected_pods.all()) == READ
        await here.rounds(400, SECOND // 2)

        assert here.rig.evictor.evicted == ["low-2"]


def test_a_cordoned_node_says_nothing() -> None:
    @on(a_node("n1", cards=2))
    async def _(here: ClaimRig) -> None:
        await here.rig.run_pod(a_pod("low", memory=5000, count=2), "n1")
        kube = KubeNode(Metadata(name="n1"), NodeSpec(unschedulable=True))
        here.cluster.kube_nodes = {"n1": kube}
        here.put(waiting("urgent", "c"))

        await here.rounds()

        assert here.rig.evictor.dry == []


holders = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 15), st.booleans()), min_size=1, max_size=4
)


@given(holders, st.integers(1, 2))
def test_as_few_pods_go_as_an_independent_search_finds(
    placed: list[tuple[int, int, bool]], count: int
) -> None:
    """A pod of a claim has a whole card, another pod as much memory as its number says.

    The answer about the pod names the same ones, where it does not say that the devices are free:
    the scheduler, which sees no shares, may choose others.
    """
    here_: list[tuple[str, int, int]] = []
    claimed: list[str] = []

    @on(a_node("n1", cards=4))
    async def _(here: ClaimRig) -> None:
        here.claims.put_slice(four())
        here.cluster.claims = here.claims
        for number, (card, priority, is_claim) in enumerate(placed):
            if is_claim and all(card != other for _, other, _ in here_):
                await here.run_claim(f"p{number}", f"gpu-{card}", priority=priority)
                here_.append((f"p{number}", card, priority))
                claimed.append(f"p{number}")
            elif not is_claim:
                name = f"p{number}"
                pod = a_pod(name, memory=2000 * (1 + card % 3), priority=priority)
                here.cluster.put(read_pod(pod))
                request = here.rig.bench.service.pod_requests.read(read_pod(pod))
                assert request is not None
                await here.rig.bench.service.bind(request, "n1")
                if here.rig.pod(name).spec.node_name:
                    ledger = here.rig.bench.service.ledgers.inventory.ledger("n1")
                    (grant,) = ledger.allocations[f"uid-{name}"].grants
                    here_.append((name, int(grant.card[-1]), priority))
        here.put(waiting("urgent", "c"), count=count)
        found = await here.rig.bench.service.explain(here.rig.pod("urgent"))

        await here.rounds()

        sets = [
            gone
            for size in range(len(here_) + 1)
            for gone in combinations(here_, size)
            if all(priority < 10 for _, _, priority in gone)
            and (count == 1 or all(one in names(gone) or one in claimed for one, _, _ in here_))
            and len({0, 1, 2, 3} - {card for one, card, _ in here_ if one not in names(gone)})
            >= count
        ]
        evicted = here.rig.evictor.evicted
        said = () if found.eviction is None else found.eviction.pods
        named = [] if found.answer.fitting else sorted(evicted)
        assert sorted(each.pod_ref.name for each in said) == named
        assert bool(evicted) == (bool(sets) and sets[0] != ())
        if evicted:
            assert sorted(evicted) in [sorted(names(gone)) for gone in sets]
            best = min(max(priority for _, _, priority in gone) for gone in sets)
            assert max(p for name, _, p in here_ if name in evicted) == best


def names(gone: Sequence[tuple[str, int, int]]) -> list[str]:
    return [name for name, _, _ in gone]


def four() -> Any:
    return slice_of("n1", *(a_card_device(f"gpu-{i}", f"GPU-n1-{i}", "8Gi") for i in range(4)))
