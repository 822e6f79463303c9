"""Each state of a node on the way to claims, who advertises its cards, and what is in the way."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from adapters.cli.doctor.cluster import check_claim_schedulers
from adapters.cli.doctor.command import observe
from adapters.cli.doctor.finding import FindingLevel
from adapters.cli.doctor.observed import Observed
from adapters.cli.doctor.tests.sound_cluster import PATIENT, SoundCluster
from adapters.cli.doctor.tests.test_claims import with_dra
from adapters.cli.doctor.transition import CLAIMS, DIALECT, PLUGIN, transition
from adapters.cli.fleet.fleet import read_fleet
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import Source
from adapters.cli.main import app
from adapters.cli.tests.builders import (
    Plain,
    a_claim,
    a_slice,
    ledger_of,
    node,
    pod,
    stream,
    uuid,
    volcano_bound,
)
from adapters.cluster.tests.server import client, serving
from adapters.dialects.dialect import Defaults
from adapters.wire.records import hardware
from adapters.wire.records.hardware import NodeHardware
from core.hardware.card import Card

EXAMPLES = Path(__file__).parents[4] / "configs" / "examples"
UNKNOWN = "no settings of the service can be read: dra.enabled is not known"
NO_SLICE = "no ResourceSlice describes its cards"
GPU = "nvidia.com/gpu"


def run(*words: str, stdin: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(app, ["doctor", "--transition", *words], input=stdin)
    return done.exit_code, done.output


def report(*things: Plain) -> Plain:
    _, output = run("-f", "-", "-o", "json", stdin=stream(*things))
    found: Plain = json.loads(output)
    return found


def one(*things: Plain) -> tuple[str, list[str], list[str]]:
    """State, advertisers and what is in the way of the only node with cards."""
    (found,) = report(*things)["nodes"]
    return (
        found["state"],
        [each["by"] for each in found["advertisers"]],
        [": ".join((each["text"], *each["names"])) for each in found["blockers"]],
    )


def plugin(count: int = 2, allocatable: int | None = None, **more: Plain) -> Plain:
    healthy = count if allocatable is None else allocatable
    stated = {"capacity": {GPU: str(count)}, "allocatable": {GPU: str(healthy)}}
    metadata = {"name": "node-a", "labels": {f"{GPU}.count": str(count)}, **more}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": stated}


def settings(**dra: bool) -> Plain:
    data = {"sidecar.yaml": yaml.safe_dump({"dra": dra})}
    meta = {"name": "dragoman", "namespace": "dragoman-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def test_a_node_of_a_device_plugin_names_the_pods_that_hold_its_devices() -> None:
    where = {"nodeName": "node-a"}
    holder = pod("bert", {GPU: 1}, spec=where, status={"phase": "Running"})
    ended = pod("ended", {GPU: 1}, spec=where, status={"phase": "Succeeded"})

    assert one(plugin(), holder, ended) == (
        "plugin", [GPU], [NO_SLICE, f"pods with cards by {GPU}: default/bert"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("example", "dialect"),
    [
        ("hami-share", "hami"),
        ("metax-share", "metax"),
        ("volcano-hami-core", "volcano"),
        ("koordinator-gpu-share", "koordinator"),
    ],
)
def test_the_component_of_a_dialect_is_no_second_plugin(example: str, dialect: str) -> None:
    """HAMi's and MetaX's plugins state resources that a vendor's plugin has too."""
    _, output = run("-f", str(EXAMPLES / f"{example}.yaml"), "-o", "json")

    for found in json.loads(output)["nodes"]:
        assert (found["state"], [each["by"] for each in found["advertisers"]]) == (
            "dialect", [dialect]
        )  # fmt: skip
        assert found["blockers"][0] == {"text": NO_SLICE, "names": []}


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        ((), "nothing"),
        ((PLUGIN,), "plugin"),
        ((DIALECT,), "dialect"),
        ((CLAIMS,), "claims"),
        ((PLUGIN, DIALECT), "plugin and dialect"),
        ((PLUGIN, CLAIMS), "plugin and claims"),
        ((DIALECT, CLAIMS), "dialect and claims"),
        ((PLUGIN, DIALECT, CLAIMS), "plugin, dialect and claims"),
    ],
)
def test_a_state_is_the_kinds_of_what_advertises(parts: tuple[str, ...], state: str) -> None:
    kube = plugin(allocatable=None if PLUGIN in parts else 0)
    if DIALECT in parts:
        kube["metadata"]["annotations"] = node()["metadata"]["annotations"]

    (found,) = report(kube, *[a_slice(uuid(0), uuid(1))] * (CLAIMS in parts))["nodes"]

    assert found["state"] == state
    kinds = {each["kind"] for each in found["advertisers"] if each["devices"]}
    assert kinds == set(parts)


def test_nvidias_plugin_beside_a_dialect_is_named_until_one_ledger_has_both() -> None:
    beside = node(more={"status": plugin()["status"]})
    beside["metadata"]["labels"] = {f"{GPU}.count": "2"}
    beside["status"]["allocatable"]["volcano.sh/vgpu-number"] = "20"

    state, by, way = one(beside)

    assert (state, by) == ("plugin and dialect", [GPU, "volcano"])
    assert way[0] == NO_SLICE
    assert way[1].startswith("volcano (volcano.sh/vgpu-number) and NVIDIA's device plugin")


@pytest.mark.parametrize(("dialect", "is_named"), [("koordinator", True), ("volcano", False)])
def test_an_agent_that_chooses_cards_of_plain_pods_beside_the_plugin_is_named(
    dialect: str, is_named: bool
) -> None:
    card = Card(uuid(0), "node-a", 0, "nvidia", "A", 1 << 30, 10, dialects=frozenset({dialect}))
    ledger = ledger_of(plugin()) | {"status": json.loads(hardware.encode(NodeHardware((card,))))}

    state, by, way = one(plugin(), ledger)

    assert (state, by) == ("plugin and dialect", [GPU, dialect])
    chosen = "the service writes a card on pods of nvidia.com/gpu, and the kubelet gives another"
    assert way == [NO_SLICE, *[chosen] * is_named]


@pytest.mark.parametrize(
    ("example", "resource", "is_named"),
    [
        ("hami-share", GPU, True),
        ("hami-share", "example.com/gpu", False),
        ("volcano-hami-core", GPU, False),
    ],
)
def test_a_class_of_the_resource_that_pods_of_hami_request_is_in_the_way(
    example: str, resource: str, is_named: bool
) -> None:
    made = {"kind": "DeviceClass", "metadata": {"name": "whole"}}
    made |= {"apiVersion": "resource.k8s.io/v1", "spec": {"extendedResourceName": resource}}

    _, output = run(
        *("-f", str(EXAMPLES / f"{example}.yaml"), "-f", "-", "-o", "json"), stdin=stream(made)
    )

    texts = [each["text"] for each in json.loads(output)["everywhere"]]
    assert any("DeviceClass whole" in text for text in texts) == is_named


def test_pods_of_a_dialect_are_named_and_claims_are_not() -> None:
    things = [
        node(more={"status": {"allocatable": {"volcano.sh/vgpu-number": "20"}}}),
        volcano_bound("share", 1000),
        a_slice(uuid(0), uuid(1)),
        a_claim("gpu-1"),
    ]

    state, by, way = one(*things)
    _, _, decided = one(*things, ledger_of(*things))

    assert (state, by) == ("dialect and claims", ["volcano", "gpu.nvidia.com"])
    assert "no ledger has the allocations of both" in way[0]
    assert way[1:] == decided == ["pods with cards by volcano: default/share"]


def test_a_typo_in_a_uuid_is_a_card_that_no_slice_describes() -> None:
    way = one(node(), a_slice(uuid(0), uuid(1).replace("GPU", "GPV")))[2]

    assert way == [f"cards that no ResourceSlice describes: {uuid(1)}"]


def test_a_typo_in_an_annotation_is_in_the_way() -> None:
    broken = node()
    broken["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] += "GPU-x,ten,"

    state, by, way = one(broken)

    assert (state, by) == ("dialect", ["volcano"])
    assert "volcano.sh/node-vgpu-register" in way[0], way


def test_the_plugin_and_a_driver_of_the_same_cards_advertise_them_twice() -> None:
    state, by, way = one(plugin(), a_slice("GPU-0", "GPU-1"))
    _, _, stored = one(plugin(), a_slice("GPU-0", "GPU-1"), ledger_of(plugin(), a_slice("GPU-0")))

    assert (state, by) == ("plugin and claims", [GPU, "gpu.nvidia.com"])
    assert len(way) == 1
    assert way[0].endswith("advertise 2 cards, and no ledger has the allocations of both")
    assert stored == [
        f"{GPU} and ResourceSlices advertise the same cards: the kubelet chooses one that a claim"
        " may have"
    ]


def test_two_drivers_of_one_card_are_named() -> None:
    other = a_slice("GPU-0")
    other["metadata"]["name"], other["spec"]["driver"] = "t", "gpu.example.com"
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}

    state, by, way = one(bare, a_slice("GPU-0"), other)

    assert (state, by) == ("claims", ["gpu.example.com", "gpu.nvidia.com"])
    assert "ResourceSlices of gpu.example.com (claims) and ResourceSlices of gpu.nvidia" in way[0]


def test_a_dead_plugin_gives_nothing_and_is_in_the_way() -> None:
    dead = f"{GPU}: none of 2 devices is healthy: its device plugin has ended, or the cards failed"

    assert one(plugin(allocatable=0)) == ("nothing", [GPU], [dead])
    assert one(plugin(allocatable=0), a_slice("GPU-0")) == (
        "claims",
        [GPU, "gpu.nvidia.com"],
        [dead],
    )


def test_a_resource_that_the_service_wrote_is_no_plugin() -> None:
    ours = plugin(annotations={"dragoman.dev/published": json.dumps({GPU: 2})})

    assert report(ours, a_slice("GPU-0"))["nodes"][0]["state"] == "claims"


def test_claims_alone_with_all_switches_have_nothing_in_the_way() -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}
    other = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cpu"}}
    on = settings(claims=True, arbiter=True, shadows=True)

    status, output = run("-f", "-", stdin=stream(bare, other, a_slice("GPU-0"), on))

    assert status == 0
    assert output.splitlines()[1].split("   ") == [
        "node-a",
        "claims",
        "gpu.nvidia.com: 1 card",
        "-",
    ]
    assert output.splitlines()[-1] == "nodes without cards: 1"


def test_switches_that_are_off_and_settings_that_are_missing_are_in_the_way_of_all() -> None:
    some = report(plugin(), settings(claims=True, arbiter=True))
    none = report(plugin(), settings())

    assert [each["text"].split()[0] for each in some["everywhere"]] == ["dra.shadows.enabled"]
    assert len(none["everywhere"]) == 3
    assert report(plugin())["everywhere"] == [{"text": UNKNOWN, "names": []}]

    second, broken = settings(), settings()
    second["metadata"]["name"], broken["data"] = "other", {"sidecar.yaml": "a: ["}
    assert report(plugin(), settings(), second) == none
    assert report(plugin(), broken) == report(plugin())


@pytest.mark.parametrize(("arguments", "is_named"), [("", True), ("true", False), ("false", True)])
def test_a_pod_with_a_claim_waits_for_a_scheduler_that_allocates_none(
    arguments: str, is_named: bool
) -> None:
    spec = {"schedulerName": "volcano", "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    key = f"predicate.DynamicResourceAllocationEnable: {arguments}\n" if arguments else ""
    config = settings()
    config["metadata"]["name"], config["data"] = "v", {"v.conf": f"tiers: []\n{key}"}

    found = report(plugin(), pod("waits", spec=spec), pod("plain"), config)["everywhere"]

    assert [each["names"] for each in found if each["text"] != UNKNOWN] == [
        ["default/waits"]
    ] * is_named


def test_many_nodes_that_are_alike_are_one_line_with_the_pods_of_all() -> None:
    things: list[Plain] = []
    for number in range(200):
        each = plugin()
        each["metadata"]["name"] = f"n{number}"
        where = {"nodeName": f"n{number}"}
        things += [each, pod(f"p{number}", {GPU: 1}, spec=where, status={"phase": "Running"})]

    _, output = run("-f", "-", stdin=stream(*things))

    lines = output.splitlines()
    assert lines[1].startswith("n0, n1, n2 and 197 more nodes   plugin   nvidia.com/gpu: 2 devices")
    assert lines[2].strip() == (
        f"pods with cards by {GPU}: default/p0, default/p1, default/p2 and 197 more"
    )
    assert len(lines) == 5


def test_files_are_for_the_transition_only() -> None:
    done = CliRunner().invoke(app, ["doctor", "-f", "-"], input=stream(plugin()))

    assert done.exit_code == 2
    assert "--transition" in done.output


def seen_of(cluster: SoundCluster) -> Observed:
    async def main() -> Observed:
        async with serving(cluster._answer) as server, client(server, PATIENT) as api:
            return await observe(api)

    return asyncio.run(main())


def test_a_gate_that_is_off_is_in_the_way_of_the_pods_that_wait_for_its_scheduler() -> None:
    cluster = with_dra(claims=True, arbiter=True, shadows=True)
    scheduler = cluster.find("pods", "koord-scheduler")["spec"]["containers"][0]
    scheduler["args"].append("--feature-gates=A=true,DynamicResourceAllocation=false")
    claims = [{"name": "c", "resourceClaimName": "c"}]
    of_koord = pod("a", spec={"schedulerName": "koord-scheduler", "resourceClaims": claims})
    of_kube = pod("b", spec={"resourceClaims": claims})
    fleet = read_fleet(manifests([Source("-", stream(of_koord, of_kube), named=True)]), Defaults())

    (found,) = transition(fleet, (), seen_of(cluster)).everywhere

    assert found.line() == (
        "pods wait with claims for koord-scheduler, which allocates none with"
        " DynamicResourceAllocation=false: default/a"
    )


@pytest.mark.parametrize(
    ("is_shared", "gates"),
    [
        (True, ""),
        (True, "AllBeta=true"),
        (True, "DRAConsumableCapacity=true"),
        (True, "A=false,AllAlpha=1"),
        (False, ""),
    ],
)
def test_a_scheduler_that_counts_no_shares_of_a_shared_device_is_named(
    is_shared: bool, gates: str
) -> None:
    cluster = with_dra(claims=True, arbiter=True, shadows=True)
    scheduler = cluster.find("pods", "koord-scheduler")["spec"]["containers"][0]
    scheduler["args"] += [f"--feature-gates={gates}"] if gates else []
    published = a_slice(uuid(1))
    published["spec"]["devices"][0]["allowMultipleAllocations"] = is_shared
    things = stream(plugin(), published)
    fleet = read_fleet(manifests([Source("-", things, named=True)]), Defaults())

    found = [each.text for each in transition(fleet, (), seen_of(cluster)).everywhere]

    assert found == (
        [
            "koord-scheduler (as of Kubernetes 1.35) takes a card for free as soon as one of"
            " several claims on it ends: start it with --feature-gates=DRAConsumableCapacity=true"
        ]
        if is_shared and gates in {"", "AllBeta=true"}
        else []
    )


def test_rights_and_settings_of_a_live_cluster_are_in_the_way_too() -> None:
    cluster = with_dra(claims=True)
    cluster.version = "v1.37.1"
    cluster.forbidden.add(("update", "resourceclaims/binding"))
    seen = seen_of(cluster)
    fleet = read_fleet(manifests([Source("-", stream(plugin()), named=True)]), Defaults())

    texts = [each.text for each in transition(fleet, (), seen).everywhere]

    (lacks,) = (e for e in check_claim_schedulers(seen) if e.level is not FindingLevel.OK)
    assert texts[-1] == f"{lacks.text}: {lacks.remedy}"
    assert [text.split()[0] for text in texts[:-1]] == [
        "dra.arbiter.enabled",
        "dra.shadows.enabled",
    ]
