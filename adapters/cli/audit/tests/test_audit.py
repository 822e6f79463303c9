"""Each rule of the audit, on a cluster that breaks it and nothing else."""

import json
from collections import Counter
from pathlib import Path

import pytest

from adapters.cli.audit.audit import AGAIN
from adapters.cli.audit.finding import RULES
from adapters.cli.commands import checks
from adapters.cli.tests.api_server import PATHS, api_server
from adapters.cli.tests.builders import (
    Plain,
    a_claim,
    a_slice,
    device,
    ledger_of,
    node,
    pod,
    stream,
    uuid,
    volcano,
    volcano_bound,
    write,
)
from adapters.cli.tests.command import as_plain, command
from adapters.cli.tests.gangs import KOORDINATOR, KUBERNETES, group, member
from adapters.cli.tests.gangs import bound as gang_bound
from adapters.dialects.gangs import GROUPS
from adapters.repairs.repairs import closing
from adapters.wire.records.hardware import DeviceHolding, NodeHardware, encode
from adapters.wire.records.ledger import decode as decode_ledger
from adapters.wire.records.ledger import encode as encode_ledger
from core.hardware.card import Card
from core.ledger.problem import ProblemKind


def findings(*things: Plain, options: tuple[str, ...] = ()) -> list[Plain]:
    found: list[Plain] = as_plain("audit", *options, things=things)["findings"]
    return found


def one(*things: Plain) -> Plain:
    (found,) = findings(*things)
    return found


def recorded(name: str, record: str, memory: int = 1000) -> Plain:
    bound = volcano_bound(name, memory)
    bound["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = record
    return bound


def advertising(*names: str) -> Plain:
    return {"status": {"allocatable": dict.fromkeys(names, "10")}}


def test_every_problem_of_a_ledger_has_a_rule() -> None:
    assert {kind.value for kind in ProblemKind} <= RULES.keys()


def test_a_cluster_without_faults_has_no_findings() -> None:
    things = [node(), volcano_bound("a", 6000), pod("pending", volcano(1))]

    result = command("audit", things=things)

    assert (result.exit_code, result.stdout) == (
        0,
        "1 node, 2 cards, 1 pod with cards: no findings\n",
    )


def test_an_over_allocated_card_is_named_with_its_pods_dialects_and_gib() -> None:
    found = one(node(), volcano_bound("a", 6000), volcano_bound("b", 5000))

    assert (found["rule"], found["level"], found["node"], found["card"]) == (
        "memory-over-allocated",
        "error",
        "node-a",
        uuid(0),
    )
    assert found["text"] == (
        "10.7 of 9.8 GiB are allocated: default/a (volcano) 5.9 GiB, default/b (volcano) 4.9 GiB"
    )


def test_compute_counts_over_dialects() -> None:
    whole = volcano_bound("a", 1000)
    whole["spec"]["containers"][0]["resources"]["limits"] = volcano(1000, cores=60)
    whole["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = f"{uuid(0)},NVIDIA,1000,60:"
    other = pod(
        "k",
        {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50},
        metadata={
            "uid": "uid-k",
            "annotations": {
                "scheduling.koordinator.sh/device-allocated": (
                    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50",'
                    '"koordinator.sh/gpu-memory-ratio":"50","koordinator.sh/gpu-memory":"5000Mi"}}]}'
                )
            },
        },
        spec={"nodeName": "node-a"},
    )

    found = findings(node(), device("node-a", uuid(0), uuid(1)), whole, other)

    assert [each["rule"] for each in found] == ["compute-over-allocated"]
    assert "default/a (volcano) 60%" in found[0]["text"]
    assert "default/k (koordinator) 50%" in found[0]["text"]


def test_a_share_without_a_record_is_found() -> None:
    bound = pod("a", volcano(1000), spec={"nodeName": "node-a"})

    found = one(node(), bound)

    assert (found["rule"], found["pod"]) == ("share-without-record", "default/a")


def test_a_record_that_cannot_be_read_is_found() -> None:
    found = one(node(), recorded("a", "nonsense"))

    assert (found["rule"], found["pod"]) == ("unreadable-allocation", "default/a")


def test_a_record_with_less_than_the_request_is_an_edited_one() -> None:
    found = one(node(), recorded("a", f"{uuid(0)},NVIDIA,100,0:", memory=9000))

    assert (found["rule"], found["level"]) == ("edited-record", "error")
    assert found["text"] == (f"its record gives main 0.1 GiB of {uuid(0)}, its request 8.8 GiB")


def test_a_record_of_a_card_that_the_node_lacks_is_found_once() -> None:
    found = one(node(), recorded("a", "GPU-lost,NVIDIA,1000,0:"))

    assert (found["rule"], found["card"]) == ("unknown-card", "GPU-lost")


def test_a_record_of_a_pod_that_requests_no_share_is_found() -> None:
    strange = recorded("a", f"{uuid(0)},NVIDIA,1000,0:")
    strange["spec"]["containers"][0]["resources"] = {}

    assert one(node(), strange)["rule"] == "record-without-request"


def test_a_mirrored_record_needs_no_request() -> None:
    shown = recorded("a", f"{uuid(0)},NVIDIA,1000,0:")
    shown["metadata"]["annotations"]["dragoman.dev/mirror-volcano"] = "true"
    shown["spec"]["containers"][0]["resources"] = {}

    assert findings(node(), shown) == []


def test_two_components_that_advertise_one_card_are_found() -> None:
    both = advertising("volcano.sh/vgpu-number", "koordinator.sh/gpu-core")

    found = one(node(cards=1, more=both), device("node-a", uuid(0)))

    assert (found["rule"], found["card"]) == ("two-allocators", uuid(0))
    assert found["text"].startswith(
        "volcano (volcano.sh/vgpu-number) and koordinator (koordinator.sh/gpu-core) advertise it"
    )


def test_resources_that_dragoman_published_are_no_second_allocator() -> None:
    both = node(cards=1, more=advertising("volcano.sh/vgpu-number", "koordinator.sh/gpu-core"))
    both["metadata"]["annotations"]["dragoman.dev/published"] = '{"koordinator.sh/gpu-core": 10}'

    assert findings(both, device("node-a", uuid(0))) == []


def test_a_node_with_a_ledger_has_one_allocator() -> None:
    both = node(cards=1, more=advertising("volcano.sh/vgpu-number", "koordinator.sh/gpu-core"))
    things = [both, device("node-a", uuid(0))]

    assert findings(*things, ledger_of(*things)) == []


def test_an_invalid_description_of_a_node_is_found() -> None:
    broken = node()
    broken["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = "GPU-a,1:"

    assert one(broken)["rule"] == "node-description"


def test_a_pod_on_a_node_that_does_not_exist_is_found() -> None:
    found = one(node(), pod("a", volcano(1), spec={"nodeName": "elsewhere"}))

    assert (found["rule"], found["node"]) == ("pod-on-unknown-node", "elsewhere")


def test_a_ledger_that_agrees_with_its_pods_has_no_findings() -> None:
    things = [node(), volcano_bound("a", 1000)]

    assert findings(*things, ledger_of(*things)) == []


def test_a_ledger_that_cannot_be_read_is_found() -> None:
    broken = ledger_of(node())
    broken["spec"]["cards"] = "none"

    assert one(node(), broken)["rule"] == "unreadable-ledger"


def test_a_ledger_without_a_node_is_found() -> None:
    found = one(node(), ledger_of(node("gone"), on="gone"))

    assert (found["rule"], found["node"]) == ("ledger-without-node", "gone")


def test_a_pod_that_its_ledger_does_not_know_is_found() -> None:
    found = one(node(), ledger_of(node()), volcano_bound("a", 1000))

    assert (found["rule"], found["pod"]) == ("pod-not-in-ledger", "default/a")


def test_an_allocation_without_a_pod_is_found() -> None:
    found = one(node(), ledger_of(node(), volcano_bound("a", 1000)))

    assert (found["rule"], found["pod"]) == ("allocation-without-pod", "default/a")


def test_what_closes_a_node_after_its_ledger_was_deleted_is_not_found() -> None:
    closed = ledger_of(node())
    ledger = decode_ledger(json.dumps(closed["spec"]).encode())
    closed["spec"] = json.loads(encode_ledger(ledger.adopt(closing(ledger.node))))

    assert not findings(node(), closed)


def test_a_record_that_names_other_cards_than_the_ledger_is_found() -> None:
    ledger = ledger_of(node(), volcano_bound("a", 1000, card=0))

    found = one(node(), ledger, volcano_bound("a", 1000, card=1))

    assert (found["rule"], found["pod"]) == ("record-differs-from-ledger", "default/a")


def test_a_ledger_with_other_cards_than_the_node_is_found() -> None:
    found = one(node(cards=2), ledger_of(node(cards=1)))

    assert (found["rule"], found["level"]) == ("ledger-describes-other-cards", "note")


@pytest.mark.parametrize(("namespace", "count"), [("ml", 1), ("other", 0)])
def test_findings_of_one_namespace_are_those_of_its_pods(namespace: str, count: int) -> None:
    things = [node(), volcano_bound("a", 6000), volcano_bound("b", 5000, namespace="ml")]

    assert len(findings(*things, options=("-n", namespace))) == count


def test_an_ignored_rule_has_no_findings_and_exit_status_0() -> None:
    things = [node(), volcano_bound("a", 6000), volcano_bound("b", 5000)]

    result = command("audit", "--ignore", "memory-over-allocated", things=things)

    assert result.exit_code == 0


def test_an_unknown_rule_to_ignore_is_bad_input() -> None:
    result = command("audit", "--ignore", "nonsense", things=[node()])

    assert result.exit_code == 2
    assert "'nonsense' is no rule" in result.stderr


def test_every_finding_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "dump.json", stream(node(), recorded("a", "nonsense")))

    (found,) = as_plain("audit", "-f", path)["findings"]

    assert (found["file"], found["line"]) == (str(path), 2)


def test_a_gang_of_which_some_pods_are_bound_and_others_wait_is_named_with_what_it_needs() -> None:
    things = [node(cards=1), group(KUBERNETES, 3), gang_bound("a", 0), member("b"), member("c")]

    found = one(*things)

    assert (found["rule"], found["level"], found["pod"]) == (
        "gang-bound-in-part",
        "warning",
        "default/b",
    )
    assert found["text"] == "gang default/g of 3: 1 pod is bound; default/b, default/c wait"
    assert findings(*things, options=("-n", "other")) == []
    assert len(findings(*things, options=("-n", "default"))) == 1


def test_a_gang_of_many_pods_names_some_and_counts_the_rest() -> None:
    waiting = [member(f"p{number}") for number in range(7)]

    found = one(node(), group(KUBERNETES, 9), gang_bound("a", 0), gang_bound("b", 1), *waiting)

    assert found["text"] == (
        "gang default/g of 9: 2 pods are bound; default/p0, default/p1, default/p2, default/p3,"
        " default/p4 and 2 more wait"
    )


def test_gangs_that_are_bound_together_are_one_finding() -> None:
    groups = [group(KOORDINATOR, 1, name) for name in "gh"]
    for each in groups:
        each["metadata"]["annotations"] = {GROUPS: '["default/g", "default/h"]'}
    on = gang_bound("a", 0)
    del on["spec"]["schedulingGroup"]
    on["metadata"]["labels"] = member("a", KOORDINATOR)["metadata"]["labels"]

    found = one(node(), *groups, on, member("b", KOORDINATOR, "h"))

    assert found["text"] == "gang default/g of 2: 1 pod is bound; default/b waits"


@pytest.mark.parametrize(
    "things",
    [
        [gang_bound("a", 0), gang_bound("b", 1)],
        [gang_bound("a", 0), gang_bound("b", 1), member("c")],
        [member("a"), member("b")],
        [gang_bound("a", 0)],
        [gang_bound("a", 0), member("b", limits={"cpu": 1})],
        [gang_bound("a", 0), member("b", spec={"schedulingGates": [{"name": "wait"}]})],
    ],
)
def test_a_gang_that_is_whole_waits_whole_or_waits_for_no_cards_is_no_finding(
    things: list[Plain],
) -> None:
    assert findings(node(), group(KUBERNETES, 2), *things) == []


def hami_node(*cards: str) -> Plain:
    register = [
        {"id": each, "index": n, "count": 10, "devmem": 24576, "devcore": 100, "type": "NVIDIA-A10",
         "mode": "hami-core", "health": True}
        for n, each in enumerate(cards)
    ]  # fmt: skip
    annotations = {"hami.io/node-nvidia-register": json.dumps(register)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "h", "annotations": annotations},
    }


def plain_pod(name: str) -> Plain:
    spec, status = {"nodeName": "h"}, {"phase": "Running"}
    return pod(name, {"nvidia.com/gpu": 1}, metadata={"uid": name}, spec=spec, status=status)


def hami_bound(name: str, card: str) -> Plain:
    annotations = {"hami.io/vgpu-devices-allocated": f"{card},NVIDIA,1000,0:;"}
    return pod(
        name,
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000},
        metadata={"uid": name, "annotations": annotations},
        spec={"nodeName": "h"},
        status={"phase": "Running"},
    )


@pytest.mark.parametrize(
    ("things", "found"),
    [
        ([plain_pod("old")], {"warning": 1}),
        ([plain_pod("old"), plain_pod("older")], {"warning": 2}),
        ([plain_pod("old"), hami_bound("a", "GPU-1")], {"warning": 1}),
        # It has one of them for certain.
        (
            [plain_pod("old"), hami_bound("a", "GPU-1"), hami_bound("b", "GPU-2")],
            {"error": 2, "warning": 1},
        ),
    ],
)
def test_a_pod_whose_card_the_kubelet_chose_is_one_warning_while_a_card_is_free_for_it(
    things: list[Plain], found: dict[str, int]
) -> None:
    findings = as_plain("audit", things=[hami_node("GPU-1", "GPU-2"), *things])["findings"]

    assert Counter(each["level"] for each in findings) == found
    warned = {each["rule"] for each in findings if each["level"] == "warning"}
    assert warned == {"share-without-record"}


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_pod_whose_card_the_agent_reports_is_no_finding(is_shared: bool) -> None:
    dialects = frozenset({"volcano"})
    cards = [
        Card(each, "h", n, "nvidia", "A10", 24 << 30, 10, dialects=dialects)
        for n, each in enumerate(("GPU-1", "GPU-2"))
    ]
    holding = DeviceHolding("old", "main", "nvidia.com/gpu", 1, ("GPU-1",), is_shared)
    agent = NodeHardware(tuple(cards), holdings=(holding,))
    things, status = [hami_node(), plain_pod("old")], {"status": json.loads(encode(agent))}
    ledger = ledger_of(*things, ledger_of(hami_node(), on="h") | status, on="h") | status

    assert findings(*things, ledger) == []


@pytest.mark.parametrize("gone", [[], [{"phase": "Succeeded"}]])
def test_a_claim_that_is_reserved_for_a_pod_that_is_gone_keeps_cards(gone: list[Plain]) -> None:
    claim = a_claim("gpu-0")
    claim["metadata"]["deletionTimestamp"] = "2026-07-01T00:00:00Z"
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "gone", "uid": "g"}]
    ended = [
        pod("gone", metadata={"uid": "g", "namespace": "team"}, status=status) for status in gone
    ]
    waits = pod("waits", volcano(9000), metadata={"uid": "w"})
    things = [node(cards=1), a_slice(uuid(0)), claim, waits, *ended]

    found = one(*things)
    advice = command("explain", "pod", "waits", things=things).stdout

    assert (found["rule"], found["pod"]) == ("claim-without-pod", "team/c")
    assert found["text"] == "is reserved for gone, and no such pod runs"
    assert "end on node-a: ResourceClaim team/c\n" in advice


def test_a_claim_of_a_device_that_no_slice_describes_is_no_record_of_a_pod() -> None:
    claim = a_claim("gpu-7")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "user", "uid": "u"}]
    user = pod("user", metadata={"uid": "u", "namespace": "team"}, spec={"nodeName": "node-a"})

    found = one(node(cards=1), a_slice(uuid(0)), claim, user)

    assert (found["rule"], found["pod"]) == ("claim-without-card", "team/c")


@pytest.mark.parametrize(
    ("resource", "owner"),
    [
        ("nvidia.com/gpu", "NVIDIA's device plugin (nvidia.com/gpu)"),
        ("nvidia.com/gpu.shared", "NVIDIA's device plugin (nvidia.com/gpu.shared)"),
        ("nvidia.com/mig-1g.5gb", "NVIDIA's device plugin (nvidia.com/mig-1g.5gb)"),
        ("aliyun.com/gpu-mem", "aliyun.com (aliyun.com/gpu-mem)"),
        ("tencent.com/vcuda-core", "tencent.com (tencent.com/vcuda-core)"),
        ("cerit.io/gpu.mem", "cerit.io (cerit.io/gpu.mem)"),
        ("nvidia.com/gpu-10gb", "nvidia.com (nvidia.com/gpu-10gb)"),
        ("volcano.sh/gpu-memory", "Volcano's former plugin (volcano.sh/gpu-memory)"),
    ],
)
def test_a_component_that_is_no_dialect_is_a_second_allocator(resource: str, owner: str) -> None:
    first = "volcano (volcano.sh/vgpu-number)"
    both = node(cards=2, more=advertising("volcano.sh/vgpu-number", resource))

    found = one(both)
    in_ledger = [each["rule"] for each in findings(both, ledger_of(both))]

    assert (found["rule"], found["node"]) == ("two-allocators", "node-a")
    assert found["text"].startswith(f"{first} and {owner} advertise 2 cards")
    assert in_ledger == ["two-allocators"]


def test_nvidias_plugin_beside_another_system_on_undescribed_cards_is_found() -> None:
    both = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "n"},
        **advertising("nvidia.com/gpu", "aliyun.com/gpu-mem", "aliyun.com/gpu-count"),
    }

    assert one(both)["text"].startswith(
        "aliyun.com (aliyun.com/gpu-count) and NVIDIA's device plugin (nvidia.com/gpu) advertise"
        " the node's cards"
    )


def test_one_system_beside_no_other_is_no_second_allocator() -> None:
    for names in (["aliyun.com/gpu-mem"], ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]):
        alone = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}
        assert findings({**alone, **advertising(*names)}) == []
    none = node(cards=1, more=advertising("volcano.sh/vgpu-number"))
    none["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert findings(none) == []


@pytest.mark.parametrize(("stated", "rules"), [("20", []), ("2", ["two-allocators"])])
def test_nvidias_plugin_in_place_of_hamis_is_found_by_its_amount(
    stated: str, rules: list[str]
) -> None:
    entries = [
        {"id": uuid(i), "count": 10, "devmem": 10000, "devcore": 100, "type": "NVIDIA-A"}
        for i in range(2)
    ]
    hami = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": "n",
            "labels": {"nvidia.com/gpu.count": "2"},
            "annotations": {
                "hami.io/node-nvidia-register": json.dumps(
                    [{**each, "numa": 0, "health": True, "mode": "hami-core"} for each in entries]
                )
            },
        },
        "status": {"allocatable": {"nvidia.com/gpu": stated}},
    }

    assert [each["rule"] for each in findings(hami)] == rules


def test_what_a_second_look_at_a_cluster_does_not_find_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinds are read one after the other while pods end, and the service repairs within seconds."""
    there = [node(), volcano_bound("a", 6000), volcano_bound("b", 5000)]
    ended = volcano_bound("ended", 1000, card=1)
    looks: list[float] = []
    with api_server(tmp_path, *there, ledger_of(*there, ended)) as server:

        def repair(seconds: float) -> None:
            looks.append(seconds)
            server.objects[PATHS["NodeLedger"]] = [ledger_of(*there)]

        monkeypatch.setattr(checks, "sleep", repair)
        found = as_plain("audit", "--kubeconfig", server.kubeconfig)["findings"]

    assert [each["rule"] for each in found] == ["memory-over-allocated"]
    assert looks == [AGAIN]
