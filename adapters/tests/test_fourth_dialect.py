"""A dialect that only the registry has works everywhere: no other module lists the dialects."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.agent import config as node_config
from adapters.agent.apiserver.reports import SharingConfig, desired_status
from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.model import Hardware
from adapters.agent.hook.policy import NO_ADJUSTMENT, NoGrantYet, Policy, RejectError
from adapters.agent.injection.hami_core import MEMORY
from adapters.agent.nri.model import Adjustment, NriContainer, PodSandbox
from adapters.agent.tests.builders import card as node_card
from adapters.agent.tests.builders import container as a_container
from adapters.agent.tests.builders import equipment, ledger
from adapters.cli.tests.builders import node as node_manifest
from adapters.cli.tests.builders import pod as pod_manifest
from adapters.cli.tests.builders import report, run, stream
from adapters.dialects import registry
from adapters.dialects.adoption import adopt
from adapters.dialects.dialect import Defaults
from adapters.dialects.merge import read_node
from adapters.dialects.tests.acme import ALLOCATED, CARDS, INFO, NAME, RESOURCE, registered
from adapters.service.in_cluster.handlers import config_map_names
from adapters.service.main import open_store
from adapters.service.observe.decision_log import logger
from adapters.service.reconcile.nodes.node_resources import amounts
from adapters.service.runtime import Cluster, ServiceRuntime
from adapters.service.settings import settings as service_settings
from adapters.service.standalone import LocalCluster, routes, seed
from adapters.service.tests.builders import Json, a_pod, body, read_pod, review
from adapters.service.web.app import App
from adapters.service.web.tests.calls import call
from adapters.wire.kube import KubeNode, Metadata
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant

KUBE = KubeNode(Metadata(name="n1", annotations={CARDS: "a-0=1000,a-1=8000"}))
POD = a_pod(limits={RESOURCE: 4000})


@pytest.fixture(autouse=True)
def _acme() -> Iterator[None]:
    with registered(INFO):
        yield


async def a_service(table: LocalCluster) -> App:
    settings = service_settings.read(None, {"DRAGOMAN_STORE": "memory"})
    log, store = logger("error", "json"), open_store("memory")
    runtime = ServiceRuntime(
        settings, {}, store, Cluster(binder=table, pods=table, events=table), log
    )
    node, problems = read_node(KUBE, None, runtime.service.pod_requests.dialects)
    assert problems == ()
    await seed([NodeLedger.of(node)], store)
    await runtime.load()
    return runtime.app(routes(table, runtime.service))


async def post(app: App, path: str, content: bytes) -> Json:
    got = await call(app, "POST", path, content)
    assert got is not None
    assert got.status == 200, got.content
    return got.json


async def get(app: App, path: str) -> bytes:
    got = await call(app, "GET", path)
    assert got is not None
    return got.content


def test_the_command_schedules_its_pods_and_draws_them() -> None:
    node = node_manifest(cards=0, more={"metadata": {"name": "n1", "annotations": {CARDS: "a=8"}}})
    pods = [pod_manifest("p", {RESOURCE: 4}), pod_manifest("q", {RESOURCE: 5})]

    placed, rejected = report(node, *pods)["pods"]
    table = run("-f", "-", stdin=stream(node, *pods))

    assert (placed["dialect"], placed["annotations"]) == (NAME, {ALLOCATED: "a"})
    assert rejected["node"] is None
    assert f"▚▚ {NAME}" in table.stdout


def test_admission_accepts_its_pods_and_protects_its_result() -> None:
    async def work() -> tuple[Json, Json]:
        app = await a_service(LocalCluster())
        forged = a_pod(limits={RESOURCE: 4000}, annotations={ALLOCATED: "a-1"})
        good = await post(app, "/admission/pods", review(POD))
        return good["response"], (await post(app, "/admission/pods", review(forged)))["response"]

    good, forged = asyncio.run(work())

    assert good["allowed"]
    assert not forged["allowed"]
    assert ALLOCATED in forged["status"]["message"]


def test_the_service_filters_binds_and_shows_its_pods() -> None:
    table = LocalCluster([read_pod(POD)])

    async def work() -> tuple[Json, Json, bytes, bytes]:
        app = await a_service(table)
        fits = await post(app, "/extender/filter", body({"Pod": POD, "NodeNames": ["n1"]}))
        binding = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
        bound = await post(app, "/extender/bind", body(binding))
        return fits, bound, await get(app, "/api/cards"), await get(app, "/")

    fits, bound, cards, page = asyncio.run(work())

    assert fits["NodeNames"] == ["n1"]
    assert not bound["Error"]
    (pod,) = table.pods()
    assert (pod.spec.node_name, pod.metadata.annotations) == ("n1", {ALLOCATED: "a-1"})
    (sharer,) = [sharer for card in json.loads(cards) for sharer in card["sharers"]]
    assert (sharer["dialect"], sharer["memoryMiB"]) == (NAME, 4000)
    assert f'"name":"{NAME}","color":"{INFO.style.web_color}"'.encode() in page


def test_the_reconciler_adopts_its_pods() -> None:
    dialects = registry.dialects({}, Defaults())
    node, problems = read_node(KUBE, None, dialects)
    pod = read_pod(a_pod(limits={RESOURCE: 4000}, annotations={ALLOCATED: "a-1"}))

    found = adopt(pod, node, dialects)

    assert problems == ()
    assert found is not None
    assert [(grant.card, grant.memory) for grant in found.grants] == [("a-1", 4000 * MIB)]


def test_its_resources_can_be_published() -> None:
    settings = service_settings.read(None, {"DRAGOMAN_PUBLISH": f"volcano,{NAME}"})
    dialects = registry.dialects({}, Defaults())

    assert settings.publish == ("volcano", NAME)
    assert amounts(KUBE, None, dialects, settings.publish) == {RESOURCE: 9000}


def test_the_service_reads_its_settings_file() -> None:
    assert "acme-scheduler" in config_map_names()


def test_the_agent_advertises_cards_of_its_vendor_for_it(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(f"publish: {{dialects: [{NAME}, volcano]}}")
    dialects = node_config.read(file).publish.dialects

    status = desired_status(
        Hardware((node_card(0, NAME), node_card(1))), SharingConfig(dialects, 8)
    )

    assert [card.dialects for card in status.cards] == [{NAME}, {"volcano"}]


ALLOCATED_POD = PodSandbox("p1", "train", "uid-1", "ai", frozenset({ALLOCATED}))


def adjust(policy: Policy, pod: PodSandbox, container: NriContainer) -> Adjustment | NoGrantYet:
    return policy.adjust(policy.facts(pod, container))


def test_the_agent_waits_for_the_allocation_of_a_pod_with_its_annotation() -> None:
    policy = Policy(LedgerGrants(), equipment)
    other = PodSandbox("p1", "train", "uid-1", "ai")

    assert adjust(policy, ALLOCATED_POD, a_container()) is NoGrantYet.GRANT
    assert isinstance(adjust(policy, other, a_container()), Adjustment)


def test_the_agent_verifies_the_cards_that_its_runtime_hook_injects() -> None:
    policy = Policy(LedgerGrants(ledger(Grant("main", "GPU-1", MIB, 0))), equipment)
    right, wrong = "NVIDIA_VISIBLE_DEVICES=1", "NVIDIA_VISIBLE_DEVICES=2"
    limit = f"{MEMORY}={MIB}"

    assert adjust(policy, ALLOCATED_POD, a_container(right, limit)) == NO_ADJUSTMENT
    with pytest.raises(RejectError, match=r"acme's hook has set .*=2.*: stop acme's hook"):
        adjust(policy, ALLOCATED_POD, a_container(wrong, limit))


def test_without_the_entry_its_name_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("publish: {dialects: [other]}")
    expected = "must be one of volcano, koordinator, metax, hami, nvidia, acme"

    with pytest.raises(node_config.ConfigError, match=f"publish.dialects: 'other': {expected}"):
        node_config.read(file)
    with pytest.raises(
        service_settings.SettingsError, match=r"publish\.0: 'other': input should be"
    ):
        service_settings.read(None, {"DRAGOMAN_PUBLISH": "other"})
