import json
from dataclasses import replace

import msgspec
import pytest

from adapters.dialects.adoption import UNKNOWN, adopt, may_use_cards, unclear_cards
from adapters.dialects.allocation_record import KEY, encode
from adapters.dialects.dialect import Defaults
from adapters.dialects.formats.hami_record import METAX_QOS
from adapters.dialects.registry import dialects
from adapters.dialects.tests.builders import bound
from adapters.wire.kube import (
    Amount,
    Container,
    Metadata,
    Pod,
    PodSpec,
    PodStatus,
    Resources,
    Text,
    UnreadPod,
)
from core.feasibility.fit import fit
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.requests.reason import Cause, Reason
from core.tests.builders import a_mig_card

ALL = dialects({}, Defaults())
VOLCANO = frozenset({"volcano"})
SHARE: dict[str, Amount] = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000}


def described_by(uuid: str, index: int, vendor: str, *dialects: str) -> Card:
    return Card(uuid, "n", index, vendor, "x", 80 * GIB, 10, dialects=frozenset(dialects))


NODE = Node(
    "n",
    (
        described_by("u0", 0, "nvidia", "volcano", "koordinator"),
        described_by("u1", 1, "nvidia", "volcano"),
        described_by("m0", 2, "metax", "metax", "koordinator"),
    ),
)


def adopted(limits: dict[str, Amount], annotations: Text | None = None) -> Allocation:
    found = adopt(bound(limits, annotations), NODE, ALL)
    assert found is not None
    return found


def test_a_bound_pod_has_the_allocation_of_its_record() -> None:
    found = adopted(SHARE, {"volcano.sh/vgpu-ids-new": "u1,NVIDIA,3000,0:"})

    assert found.unread is None
    assert found.grants == (Grant("c", "u1", 3000 * MIB, 0),)
    assert (found.pod, found.uid, found.dialect) == ("d/p", "7", "volcano")


def test_a_pod_that_cannot_be_decoded_blocks_every_card_of_its_node() -> None:
    pod = UnreadPod(Metadata(name="p", uid="7"), PodSpec(node_name="n"), problem="odd")

    found = adopt(pod, NODE, ALL)

    assert found is not None
    assert (found.unread, found.dialect) == ("cannot be decoded: odd", UNKNOWN)
    assert found.blocked == {"u0", "u1", "m0"}


@pytest.mark.parametrize(
    ("node", "node_known", "may_use"),
    [("n", True, True), (None, True, False), (None, False, True)],
)
def test_a_pod_of_which_no_node_can_be_decoded_may_use_cards(
    node: str | None, node_known: bool, may_use: bool
) -> None:
    assert may_use_cards(UnreadPod(spec=PodSpec(node_name=node), node_known=node_known)) is may_use


def test_a_pod_that_requests_no_share_has_no_allocation() -> None:
    assert adopt(bound({"cpu": 1}), NODE, ALL) is None


def test_a_pod_without_a_record_blocks_every_card_that_it_may_use() -> None:
    found = adopted(SHARE)

    assert found.unread == "runs on n without a record of its cards"
    assert found.blocked == {"u0", "u1"}


def test_a_pod_without_a_record_has_its_own_priority() -> None:
    """With 0 instead, a request of a lower priority could evict it."""
    pod = bound(SHARE)
    important = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=9))

    found = adopt(important, NODE, ALL)

    assert found is not None
    assert found.unread is not None
    assert found.priority == 9


def test_whole_cards_of_another_scheduler_are_blocked_although_no_record_names_them() -> None:
    assert adopted({"nvidia.com/gpu": 1}).blocked == {"u0", "u1"}


def test_an_unparsable_record_blocks_the_cards_and_is_reported() -> None:
    found = adopted(SHARE, {"volcano.sh/vgpu-ids-new": "u1,NVIDIA,much,0:"})

    assert "volcano.sh/vgpu-ids-new" in (found.unread or "")
    assert found.blocked == {"u0", "u1"}


def test_an_unparsable_request_blocks_all_cards() -> None:
    found = adopted({"volcano.sh/vgpu-number": "many"})

    assert found.blocked == {"u0", "u1", "m0"}
    assert "vgpu-number" in (found.unread or "")


def test_a_pod_in_several_dialects_blocks_all_cards() -> None:
    found = adopted({"volcano.sh/vgpu-number": 1, "koordinator.sh/gpu": 50})

    assert found.dialect == UNKNOWN
    assert found.blocked == {"u0", "u1", "m0"}


def test_an_unknown_allocation_leaves_no_card_free() -> None:
    ledger = NodeLedger.of(NODE).adopt(adopted({"nvidia.com/gpu": 1}))
    dialect = ALL[0]
    other = Pod(
        Metadata(name="q", uid="8"),
        PodSpec(containers=(Container("c", Resources(limits=SHARE)),)),
    )

    rejected = fit(dialect.read_request(other), ledger)

    assert isinstance(rejected, Reason)
    assert Cause.HELD_BY_KUBELET in {tally.cause for tally in rejected.counts}


def test_a_minor_beside_the_id_of_another_card_blocks_these_two_cards() -> None:
    record = '{"gpu":[{"minor":2,"id":"u0","resources":{"koordinator.sh/gpu-memory":"1Gi"}}]}'

    found = adopted(
        {"koordinator.sh/gpu-memory": "1Gi"}, {"scheduling.koordinator.sh/device-allocated": record}
    )

    assert "minor 2" in (found.unread or "")
    assert found.blocked == {"u0", "m0"}
    pod = bound(
        {"koordinator.sh/gpu-memory": "1Gi"}, {"scheduling.koordinator.sh/device-allocated": record}
    )
    assert unclear_cards(pod, NODE, ALL) == {"u0", "m0"}


@pytest.mark.parametrize("record", [{}, {"volcano.sh/vgpu-ids-new": "?"}])
def test_a_record_that_is_missing_or_unreadable_means_no_cards(record: dict[str, str]) -> None:
    assert unclear_cards(bound(SHARE, record), NODE, ALL) == frozenset()
    assert unclear_cards(bound({"cpu": 1}, record), NODE, ALL) == frozenset()
    readable = {"volcano.sh/vgpu-ids-new": "u1,NVIDIA,3000,0:"}
    assert unclear_cards(bound(SHARE, readable), NODE, ALL) == frozenset()


@pytest.mark.parametrize(
    ("card", "core", "policy", "qos"),
    [
        ("m0", "50", {}, "best-effort"),
        ("m0", "50", {METAX_QOS: "burst-share"}, "burst-share"),
        ("m0", "50", {METAX_QOS: "any"}, "best-effort"),
        ("m0", "100", {}, None),
        ("u0", "50", {}, None),
    ],
)
def test_a_part_of_a_metax_card_that_koordinator_allocated_has_a_qos_policy(
    card: str, core: str, policy: dict[str, str], qos: str | None
) -> None:
    resources = f'{{"koordinator.sh/gpu-core":"{core}","koordinator.sh/gpu-memory":"1Gi"}}'
    minor = [each.uuid for each in NODE.cards].index(card)
    record = f'{{"gpu":[{{"minor":{minor},"id":"{card}","resources":{resources}}}]}}'
    rejected: dict[str, Amount] = {
        "koordinator.sh/gpu-memory": "1Gi",
        "koordinator.sh/gpu-memory-ratio": 50,
    }

    found = adopted(rejected, {"scheduling.koordinator.sh/device-allocated": record, **policy})

    assert found.unread is None
    assert found.terms.qos == qos


MIG = "volcano.sh/vgpu-ids-new"
SLICED = replace(
    NODE,
    cards=(*NODE.cards, *(replace(a_mig_card(uuid, 9), dialects=VOLCANO) for uuid in ("c", "d"))),
)


@pytest.mark.parametrize(
    "text",
    [
        "c[group9-0],NVIDIA,1024,25:",
        "c,NVIDIA,1024,25:",
        "c[quarters-0],NVIDIA,1024,25:;d[group9-0],NVIDIA,1,0:",
    ],
)
def test_an_unknown_slice_blocks_the_cards_of_its_record_and_no_others(text: str) -> None:
    found = adopt(bound({"volcano.sh/vgpu-number": 1}, {MIG: text}), SLICED, ALL)

    assert found is not None
    assert "must name a slice" in (found.unread or "")
    assert found.blocked == ({"c", "d"} if ";" in text else {"c"})


def test_our_record_of_an_unknown_slice_blocks_its_card_and_no_others() -> None:
    slot = a_mig_card().geometry.layouts[0].slices[0]
    text = encode((Grant("c", "c", 1, 1, slice=replace(slot, layout="group9")),))

    found = adopt(bound({"volcano.sh/vgpu-number": 1}, {KEY: text}), SLICED, ALL)

    assert found is not None
    assert "must name a slice" in (found.unread or "")
    assert found.blocked == {"c"}


def test_our_record_with_an_unknown_slice_and_too_few_cards_blocks_all_cards() -> None:
    slot = a_mig_card().geometry.layouts[0].slices[0]
    text = encode((Grant("c", "c", 1, 1, slice=replace(slot, layout="group9")),))

    found = adopt(bound({"volcano.sh/vgpu-number": 2}, {KEY: text}), SLICED, ALL)

    assert found is not None
    assert found.blocked == {"u0", "u1", "c", "d"}


def test_a_terminating_pod_may_use_cards_and_a_finished_one_does_not() -> None:
    spec = PodSpec(node_name="n")

    assert may_use_cards(Pod(Metadata(deletion_timestamp="2026-01-01T00:00:00Z"), spec))
    assert may_use_cards(Pod(spec=spec, status=PodStatus("Running")))
    assert not may_use_cards(Pod(spec=spec, status=PodStatus("Succeeded")))
    assert not may_use_cards(Pod(spec=spec, status=PodStatus("Failed")))
    assert not may_use_cards(Pod(status=PodStatus("Pending")))


OWN = "dragoman.dev/allocation"
LISTED = "volcano.sh/vgpu-ids-new"


@pytest.mark.parametrize(
    "amounts",
    [
        {"memory": 1},
        {"memory": 1 << 48},
        {"compute": 1 << 20},
        {"exclusive": True},
        {"phase": "init"},
    ],
)
def test_our_own_record_names_the_card_and_no_amount(amounts: dict[str, object]) -> None:
    written = {"container": "c", "card": "u1", "memory": 1, "compute": 0} | amounts
    found = adopted(SHARE, {LISTED: "u1,NVIDIA,3000,0:", OWN: json.dumps([written])})

    assert found.unread is None
    assert found.grants == (Grant("c", "u1", 3000 * MIB, 0),)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"memory": -1}, "Expected `int` >= 0"),
        ({"compute": -1}, "Expected `int` >= 0"),
        ({"card": "u9"}, "which the node does not have"),
        ({"container": "x"}, "which requests no share"),
        (
            {
                "slice": {
                    "profile": "p",
                    "start": 0,
                    "size": 1,
                    "memory": 1,
                    "compute": 1,
                    "layout": "l",
                    "position": 0,
                }
            },
            "not in MIG mode",
        ),
    ],
)
def test_a_record_that_the_request_or_the_node_contradicts_blocks_every_card(
    entry: dict[str, object], why: str
) -> None:
    written = {"container": "c", "card": "u1", "memory": 1, "compute": 0} | entry
    found = adopted(SHARE, {LISTED: "u1,NVIDIA,3000,0:", OWN: json.dumps([written])})

    assert found.grants == ()
    assert why in (found.unread or "")
    assert "u1" in found.blocked


@pytest.mark.parametrize(("listed", "memory"), [(1, 3000), (2999, 3000), (3001, 3001)])
def test_of_a_running_pod_the_larger_of_request_and_record_is_in_use(
    listed: int, memory: int
) -> None:
    found = adopted(SHARE, {LISTED: f"u1,NVIDIA,{listed},0:"})

    assert found.grants == (Grant("c", "u1", memory * MIB, 0),)


def test_the_reason_of_an_unreadable_record_is_short() -> None:
    found = adopted(SHARE, {LISTED: "x" * 262_144})

    assert len(found.unread or "") < 500
    assert "262144 characters" in (found.unread or "")


def test_a_record_with_amounts_out_of_range_blocks_the_cards() -> None:
    found = adopted(SHARE, {LISTED: "u1,NVIDIA,9999999999,0:"})

    assert found.grants == ()
    assert "has a record of amounts that no card has" in (found.unread or "")
