"""Claims of Dynamic Resource Allocation in the input."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapters.cli.main import app
from adapters.cli.tests.api_server import PATHS, api_server
from adapters.cli.tests.builders import (
    Plain,
    a_claim,
    a_slice,
    ledger_of,
    node,
    pod,
    report,
    run,
    stream,
    uuid,
    volcano,
)
from adapters.cli.tests.command import command
from adapters.cli.tests.test_cluster import read
from adapters.cluster.api.paths import DEVICE_TAINT_RULES, NODES, RESOURCE_SLICES
from adapters.cluster.tests.real import Real, real

FOLDER = Path(__file__).parents[3] / "configs" / "examples"


def test_a_pod_gets_no_card_that_a_claim_has() -> None:
    found = report(node(cards=2), a_slice(uuid(0), uuid(1)), a_claim("gpu-0"), pod("p", volcano(1)))

    (line,) = found["pods"]
    assert [share["uuid"] for share in line["containers"]["main"]] == [uuid(1)]


def test_a_claim_without_a_slice_blocks_the_cards_of_its_node() -> None:
    found = run("-f", "-", stdin=stream(node(cards=2), a_claim("gpu-0"), pod("p", volcano(1))))

    assert found.exit_code == 1
    warning = "ResourceClaim team/c: no ResourceSlice describes gpu.nvidia.com/node-a/gpu-0"
    assert warning in found.stderr


def test_two_claims_of_one_card_are_found() -> None:
    things = (node(cards=1), a_slice(uuid(0)), a_claim("gpu-0"), a_claim("gpu-0", "other"))

    found = run("-f", "-", stdin=stream(*things))

    assert found.exit_code == 1
    assert "team/c and team/other cannot share it" in found.stderr


def test_a_card_that_only_a_slice_describes_is_a_card() -> None:
    bare = node(cards=0)
    bare["metadata"]["annotations"] = {}

    found = report(bare, a_slice("GPU-x"), a_claim("gpu-0"))

    (card,) = found["cards"]
    assert card["uuid"] == "GPU-x"
    assert card["sharers"] == ["team/c"]


def test_top_and_who_show_the_claim() -> None:
    example = str(FOLDER / "dra-claims.yaml")
    who = CliRunner().invoke(app, ["who", "dra-1/0", "-f", example])
    top = CliRunner().invoke(app, ["top", "pods", "-f", example])

    assert "training" in who.stdout
    assert "dra" in who.stdout
    assert "notebook" in top.stdout


TAINTED: Plain = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "broken"},
    "spec": {
        "deviceSelector": {"device": "gpu-0"},
        "taint": {"key": "example.com/xid", "value": "79", "effect": "NoExecute"},
    },
}


@pytest.mark.parametrize(
    "words", [("explain", "pod", "p"), ("top", "cards"), ("audit",), ("pending",)]
)
def test_every_answer_says_which_rule_closes_a_card(words: tuple[str, ...], tmp_path: Path) -> None:
    things = (node(cards=1), a_slice(uuid(0)), pod("p", volcano(1)), TAINTED)
    why = "DeviceTaintRule broken taints it: example.com/xid=79:NoExecute"

    with api_server(tmp_path, *things) as server:
        live = CliRunner().invoke(app, [*words, "--kubeconfig", str(server.kubeconfig)])
    of_files = CliRunner().invoke(app, [*words, "-f", "-"], input=stream(*things))

    for found in (of_files, live):
        assert why in " ".join(found.stdout.split())
        assert found.exit_code == (words[0] in ("explain", "audit"))


def test_schedule_says_which_rule_closes_a_card() -> None:
    things = (node(cards=1), a_slice(uuid(0)), pod("p", volcano(1)), TAINTED)

    found = run("-f", "-", stdin=stream(*things))

    assert "1 of 1 cards: DeviceTaintRule broken taints it" in found.stdout
    assert "\nUnusable: node-a\n" in found.stdout
    assert found.exit_code == 1
    beside = run("-f", "-", stdin=stream(node(), a_slice(uuid(0)), pod("p", volcano(1)), TAINTED))
    assert "\n  unusable: #0\n" in beside.stdout


def test_a_real_server_serves_the_rules() -> None:
    things = {NODES: node(cards=1), RESOURCE_SLICES: a_slice(uuid(0)), DEVICE_TAINT_RULES: TAINTED}
    things[RESOURCE_SLICES]["spec"]["pool"]["resourceSliceCount"] = 1

    async def create(server: Real) -> None:
        async with server.client() as client:
            for resource, thing in things.items():
                await client.create(resource.collection(), thing)

    with real() as server:
        asyncio.run(create(server))
        done = command("top", "cards", "--kubeconfig", server.kubeconfig)

    assert (
        "unhealthy: DeviceTaintRule broken taints it: example.com/xid=79:NoExecute" in done.stdout
    )


def test_who_may_not_list_rules_of_taints_is_warned(tmp_path: Path) -> None:
    with api_server(tmp_path, node(), a_slice(uuid(0)), TAINTED) as server:
        server.forbidden.add(PATHS["DeviceTaintRule"])
        (problem,) = read(server).problems

    assert problem.startswith("cards that devicetaintrules close are not known: must list")


def test_a_claim_of_another_version_group_is_rejected() -> None:
    claim = a_claim("gpu-0") | {"apiVersion": "v1"}

    assert "unknown kind ResourceClaim of v1" in run("-f", "-", stdin=stream(claim)).output


def test_a_live_cluster_has_its_claims_and_slices(tmp_path: Path) -> None:
    with api_server(tmp_path, node(), a_slice(uuid(0)), a_claim("gpu-0")) as server:
        found = read(server)

    assert list(found.claims) == ["team/c"]
    assert list(found.slices) == ["s"]
    assert found.problems == ()


def test_who_may_not_list_claims_is_warned(tmp_path: Path) -> None:
    with api_server(tmp_path, node(), a_claim("gpu-0")) as server:
        server.forbidden.add(PATHS["ResourceClaim"])
        found = read(server)

    assert found.claims == {}
    (problem,) = found.problems
    assert problem.startswith(
        "cards that ResourceClaims have do not count: must list resourceclaims"
    )


def test_a_claim_without_a_pod_is_a_finding() -> None:
    used = a_claim("gpu-1", "used")
    used["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    things = (node(cards=2), a_slice(uuid(0), uuid(1)), a_claim("gpu-0"), used)

    found = CliRunner().invoke(app, ["audit", "-f", "-", "-o", "json"], input=stream(*things))

    lines = [
        (each["rule"], each["pod"])
        for each in json.loads(found.stdout)["findings"]
        if each["rule"] == "claim-without-pod"
    ]
    assert lines == [("claim-without-pod", "team/c")]


def test_claims_without_pods_are_found_in_the_order_of_the_ledger() -> None:
    """The hash of a name differs from run to run."""
    names = [f"c{number}" for number in range(7)]
    claims = (a_claim(f"gpu-{number}", name) for number, name in enumerate(names))
    things = (node(cards=7), a_slice(*map(uuid, range(7))), *claims)

    found = CliRunner().invoke(app, ["audit", "-f", "-", "-o", "json"], input=stream(*things))

    findings = json.loads(found.stdout)["findings"]
    assert [each["pod"] for each in findings] == [f"team/{name}" for name in names]


PLAIN = {"nvidia.com/gpu": 1}
MADE = {
    "resourceClaimName": "made",
    "requestMappings": [
        {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r"}
    ],
}


def a_plain_pod(**status: object) -> Plain:
    """A running pod of whole cards, on node-a."""
    return pod(
        "plain",
        PLAIN,
        metadata={"namespace": "team", "uid": "u"},
        spec={"nodeName": "node-a"},
        status={"phase": "Running", **status},
    )


def a_made_claim(consumer: str = "u") -> Plain:
    """The claim that kube-scheduler makes of a pod's extended resources."""
    made = a_claim("gpu-0", "made")
    made["status"]["reservedFor"] = [{"resource": "pods", "name": "plain", "uid": consumer}]
    return made


def test_a_plain_pod_whose_request_became_a_claim_is_counted_once() -> None:
    """KEP-5004: NVIDIA's chart names nvidia.com/gpu in its device class."""
    things = (node(cards=3), a_slice(uuid(0), uuid(1), uuid(2)), a_made_claim())
    held = a_plain_pod(extendedResourceClaimStatus=MADE)

    found = report(*things, held, pod("p", volcano(1)), pod("q", volcano(1)))
    audit = CliRunner().invoke(app, ["audit", "-f", "-"], input=stream(*things, held))

    assert all(line["placed"] for line in found["pods"] if line["name"] != "plain")
    (line,) = [line for line in found["pods"] if line["name"] == "plain"]
    assert line["explanation"]["summary"] == "already bound, has the cards of its claims"
    assert found["cards"][0]["sharers"] == ["team/made"]
    assert audit.exit_code == 0, audit.output


@pytest.mark.parametrize(
    ("held", "claims"),
    [
        (a_plain_pod(), (a_made_claim(),)),
        (a_plain_pod(extendedResourceClaimStatus=MADE), ()),
        (a_plain_pod(extendedResourceClaimStatus=MADE), (a_made_claim("of another"),)),
        (
            a_plain_pod(extendedResourceClaimStatus={**MADE, "requestMappings": []}),
            (a_made_claim(),),
        ),
    ],
    ids=["no status", "no claim", "another pod's claim", "no mapping"],
)
def test_a_plain_pod_whose_claim_is_not_known_may_have_any_card(
    held: Plain, claims: tuple[Plain, ...]
) -> None:
    things = (node(cards=3), a_slice(uuid(0), uuid(1), uuid(2)), *claims, held)

    found = run("-f", "-", stdin=stream(*things, pod("p", volcano(1))))

    assert found.exit_code == 1
    assert "may be in use by a pod whose card the kubelet chose" in found.stdout


def offering(described: Plain) -> Plain:
    """A node whose device plugin advertises its cards."""
    described["status"] = {"allocatable": {"volcano.sh/vgpu-number": "20"}}
    return described


BARE: Plain = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}
NOT_COUNTED = "the ResourceSlice of gpu.nvidia.com/node-a/gpu-0 states no"


@pytest.mark.parametrize(
    ("device", "lacks"),
    [
        ({"attributes": {"uuid": {"string": uuid(0)}}}, "memory"),
        ({"basic": {"attributes": {"uuid": {"string": uuid(0)}}}}, "memory"),
        ({"capacity": {"memory": {"value": "8Gi"}}}, "uuid, or two"),
    ],
    ids=["GB10", "v1beta1", "no uuid"],
)
def test_a_device_that_no_ledger_counts_is_named(device: Plain, lacks: str) -> None:
    published = a_slice(uuid(0))
    published["spec"]["devices"] = [{"name": "gpu-0", **device}]
    holder = pod("p", metadata={"uid": "u"}, spec={"nodeName": "node-a"})
    held = a_claim("gpu-0")
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    things = stream(BARE, published, held, holder)

    explained = CliRunner().invoke(app, ["explain", "pod", "p", "-f", "-"], input=things)
    audit = CliRunner().invoke(app, ["audit", "-f", "-"], input=things)
    top = CliRunner().invoke(app, ["top", "-f", "-"], input=things)

    why = f"{NOT_COUNTED} {lacks}: no ledger counts it"
    assert f"p is bound to node-a and has devices by claims: {why}" in explained.stdout
    assert top.stderr == f"warning: none of 1 nodes has cards: {why}\n"
    assert "node-description" in audit.stdout
    assert why in audit.stdout


def test_a_pod_with_a_claim_of_no_card_uses_none() -> None:
    holder = pod("p", metadata={"uid": "u"}, spec={"nodeName": "node-a"})
    held = a_claim("eth-0", driver="nic.example.com")
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    things = stream(node(), held, holder)

    found = CliRunner().invoke(app, ["explain", "pod", "p", "-f", "-"], input=things)

    assert "is bound to node-a and uses no cards" in found.stdout


def plugin_node(**allocatable: str) -> Plain:
    return {**BARE, "status": {"allocatable": allocatable, "capacity": allocatable}}


@pytest.mark.parametrize(
    ("things", "advertise"),
    [
        (
            (plugin_node(**{"nvidia.com/gpu": "2"}), a_slice(uuid(0), uuid(1))),
            "ResourceSlices of gpu.nvidia.com (claims) and NVIDIA's device plugin (nvidia.com/gpu)"
            " advertise 2 cards",
        ),
        (
            (offering(node(cards=2)), a_slice(uuid(1))),
            "volcano (volcano.sh/vgpu-number) and ResourceSlices of gpu.nvidia.com (claims)"
            " advertise it",
        ),
        ((offering(node(cards=2)), a_slice("GPU-other")), ""),
        ((BARE, a_slice(uuid(0))), ""),
    ],
    ids=["NVIDIA's plugin", "Volcano's plugin", "other cards", "claims alone"],
)
def test_a_card_of_a_device_plugin_and_of_a_slice_has_two_allocators(
    things: tuple[Plain, ...], advertise: str
) -> None:
    found = CliRunner().invoke(app, ["audit", "-f", "-"], input=stream(*things))

    assert ("two-allocators" in found.stdout) == bool(advertise)
    assert advertise in found.stdout


def test_a_ledger_has_the_allocations_of_plugins_and_of_claims() -> None:
    things = (offering(node(cards=2)), a_slice(uuid(1)))

    found = CliRunner().invoke(app, ["audit", "-f", "-"], input=stream(*things, ledger_of(*things)))

    assert "two-allocators" not in found.stdout
