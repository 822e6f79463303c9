"""The leader creates the claims of converted pods."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest

from adapters.dialects.translation.conversion import KEY, Conversion, convert, stated
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.cluster_state.unbound_pods import UnboundPods
from adapters.service.decide.conversion_policy import ConversionPolicy
from adapters.service.reconcile.claim_previews.conversions import AGAIN, Conversions, needs_a_look
from adapters.service.tests.builders import DIALECTS, Json, a_pod, a_service, read_pod, run
from adapters.service.tests.settling import run_settling, settled
from adapters.wire.kube import Pod, full_name
from core.requests.pod_ref import PodRef


@dataclass
class FakeServer:
    asked: list[tuple[PodRef, str, object]] = field(default_factory=list)
    answer: bool | None = True

    async def create(self, pod: PodRef, name: str, spec: Mapping[str, object]) -> bool:
        self.asked.append((pod, name, spec))
        if self.answer is None:
            raise OSError("no answer")
        return self.answer


class Rig:
    def __init__(self, *namespaces: str) -> None:
        service = run(a_service()).service
        policy = ConversionPolicy(service, namespaces or ("*",), ["default-scheduler"])
        self.now, self.server = 100.0, FakeServer()
        self.reports: list[tuple[str, str, str]] = []
        self.cache = ClusterCache()
        pods = UnboundPods(needs_a_look(policy, service))
        self.cache.follow_pods(pods)
        self.pods = pods
        self.made = Conversions(
            service,
            policy,
            pods,
            self.server,
            lambda: self.now,
            lambda pod, reason, text: self.reports.append((full_name(pod), reason, text)),
        )

    def look(self, after: float = 0.0) -> list[str]:
        """The names of all claims that were asked for until now."""
        self.now += after
        asyncio.run(self.made.look())
        return [name for _, name, _ in self.server.asked]


def a_converted_pod(**spec: Json) -> Pod:
    pod = a_pod(annotations={})
    found = convert(read_pod(pod), DIALECTS)
    assert isinstance(found, Conversion)
    record = stated(read_pod(pod), found, {"main": "p-main-1"})
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "main"}]}
    pod["spec"] |= spec
    pod["metadata"]["annotations"] = {KEY: record}
    return read_pod(pod)


def test_a_converted_pod_gets_its_claim_once() -> None:
    rig = Rig()
    rig.cache.put_pod(a_converted_pod())

    assert rig.look() == ["p-main-1"]
    assert rig.look(60) == ["p-main-1"]
    ((pod, _, spec),) = rig.server.asked
    assert pod == PodRef("default", "p", "uid-p")
    assert "4000Mi" in str(spec)
    assert not rig.reports


def test_a_server_that_does_not_answer_is_asked_again_and_the_pod_says_so() -> None:
    rig = Rig()
    rig.server.answer = None
    rig.cache.put_pod(a_converted_pod())

    assert len(rig.look()) == 1
    assert len(rig.look(AGAIN - 1)) == 1
    rig.server.answer = True
    assert len(rig.look(1)) == 2
    assert len(rig.look(60)) == 2
    assert rig.reports == [("default/p", "ClaimNotCreated", "no answer")]


def test_a_claim_of_another_owner_is_reported() -> None:
    rig = Rig()
    rig.server.answer = False
    rig.cache.put_pod(a_converted_pod())

    rig.look()

    ((_, reason, text),) = rig.reports
    assert reason == "ClaimNotCreated"
    assert "p-main-1 exists and is not of this pod" in text


@pytest.mark.parametrize("state", ["bound", "ended", "deleted", "gone"])
def test_a_pod_that_waits_for_no_scheduler_gets_none(state: str) -> None:
    rig = Rig()
    pod = a_converted_pod()
    rig.cache.put_pod(pod)
    meta = pod.metadata
    match state:
        case "bound":
            spec = msgspec.structs.replace(pod.spec, node_name="n1")
            rig.cache.put_pod(msgspec.structs.replace(pod, spec=spec))
        case "ended":
            status = msgspec.structs.replace(pod.status, phase="Failed")
            rig.cache.put_pod(msgspec.structs.replace(pod, status=status))
        case "deleted":
            meta = msgspec.structs.replace(meta, deletion_timestamp="2026-01-01T00:00:00Z")
            rig.cache.put_pod(msgspec.structs.replace(pod, metadata=meta))
        case _:
            rig.cache.drop_pod(meta)

    assert rig.look() == []


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (read_pod(a_pod(limits={"koordinator.sh/gpu": 50})), "50 % of the card's memory"),
        (read_pod(a_pod()), "was created while the service was not asked"),
        (read_pod(a_pod(annotations={KEY: "{}"})), "is no record of admission"),
        (read_pod(a_pod(memory=-1)), "vgpu-memory"),
    ],
)
def test_a_pod_that_was_not_converted_is_reported_once(pod: Pod, text: str) -> None:
    rig = Rig()
    rig.cache.put_pod(pod)

    rig.look()
    rig.look(60)

    ((_, reason, said),) = rig.reports
    assert reason == "NotConverted"
    assert text in said
    assert not rig.server.asked


def test_a_record_in_a_namespace_that_is_not_converted_gives_no_claim() -> None:
    """The webhook was not asked, or the setting has changed."""
    rig = Rig("ml")
    rig.cache.put_pod(a_converted_pod())
    rig.cache.put_pod(read_pod(a_pod("plain")))

    assert rig.look() == []
    assert [reason for _, reason, _ in rig.reports] == ["NotConverted"]


def test_it_looks_as_soon_as_a_pod_is_added() -> None:
    rig = Rig()

    async def main() -> None:
        work = asyncio.create_task(rig.made.run())
        await settled()
        rig.cache.put_pod(a_converted_pod())
        await settled()
        work.cancel()

    run_settling(main())

    assert [name for _, name, _ in rig.server.asked] == ["p-main-1"]
