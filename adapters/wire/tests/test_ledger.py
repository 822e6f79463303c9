import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.ledger import LedgerRecordError, decode, encode
from core.card import Level, Mode, Scope
from core.grant import Grant, State
from core.ledger import NodeLedger
from core.mig import Geometry, Slice
from core.node import Partition
from core.quantity import GIB
from core.request import Phase, TaskClass
from core.tests.builders import a_card, a_grant, a_mig_card, a_node, empty, held, tentative
from core.tests.strategies import ledgers, seeds

ETCD_LIMIT = 3 << 19
"""Bytes of a request. Source: etcd-io/etcd server/embed/config.go, DefaultMaxRequestBytes."""


def read(ledger: NodeLedger) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(encode(ledger))
    return record


def write(record: object) -> bytes:
    return json.dumps(record).encode()


def a_rich_ledger() -> NodeLedger:
    """With every field of every value away from its default."""
    card = replace(
        a_card("GPU-0"),
        healthy=False,
        numa=1,
        links=(Scope(Level.NUMA, "1"), Scope(Level.LINK, "0-3")),
        dialects=frozenset({"volcano", "koordinator"}),
        names=("NVIDIA-A100", "A100"),
    )
    cut = a_mig_card("GPU-1", 1)
    node = replace(
        a_node(card, cut, replace(cut, uuid="GPU-2", index=2)),
        isolation="hami-core",
        partitions=(Partition((0, 1), 25, 3), Partition((2,))),
        partitions_bind=True,
        losses=((1, 3), (2, -1)),
        gains=((2, 50),),
    )
    rich = replace(
        held(
            Grant("first", "GPU-0", GIB, 30, exclusive=True, phase=Phase.INIT),
            Grant("main", "GPU-1", GIB, 25, slice=cut.geometry.layouts[0].slices[1]),
        ),
        task_class=TaskClass.OFFLINE,
        qos="burst",
        group="default/ring",
        exclusions=frozenset({"b", "a"}),
        priority=-7,
        unread="its record is not readable",
        blocked=frozenset({"GPU-2", "GPU-0"}),
        since=4,
    )
    return NodeLedger.of(node).adopt(rich).adopt(held(a_grant("GPU-9"), uid="second"))


@given(ledgers(pods=8))
def test_the_record_of_a_ledger_gives_it_back(ledger: NodeLedger) -> None:
    assert decode(encode(ledger)) == ledger


def test_no_field_is_lost() -> None:
    ledger = a_rich_ledger()

    again = decode(encode(ledger))

    assert again == ledger
    assert [*again.allocations] == [*ledger.allocations]
    assert again.node.cards[1].geometry is again.node.cards[2].geometry


@given(seeds, ledgers(pods=8))
def test_held_allocations_are_left_out(seed: Any, ledger: NodeLedger) -> None:
    some = {uid for uid in ledger.allocations if seed.random() < 0.5}
    mixed = ledger
    for uid in some:
        mixed = mixed.adopt(tentative(ledger.allocations[uid], expires=5))

    again = decode(encode(mixed))

    assert [*again.allocations] == [uid for uid in ledger.allocations if uid not in some]
    assert all(one.state is State.COMMITTED for one in again.allocations.values())
    rest = [one for uid, one in ledger.allocations.items() if uid not in some]
    assert again.uses == NodeLedger.restored(ledger.node, rest).uses


@given(ledgers())
def test_fields_of_a_later_program_are_passed_over(ledger: NodeLedger) -> None:
    def add(value: Any) -> Any:
        match value:
            case dict():
                return {"later": {"more": [1]}, **{key: add(each) for key, each in value.items()}}
            case list():
                return [add(each) for each in value]
            case _:
                return value

    assert decode(write(add(read(ledger)))) == ledger


@given(ledgers(pods=8))
def test_the_order_of_keys_does_not_matter(ledger: NodeLedger) -> None:
    assert decode(json.dumps(read(ledger), sort_keys=True).encode()) == ledger


def test_a_person_can_read_the_record() -> None:
    ledger = empty(a_card("GPU-0"), name="worker-1").adopt(
        held(a_grant("GPU-0", 2 * GIB, 30), node="worker-1")
    )

    assert read(ledger) == {
        "node": "worker-1",
        "changes": 1,
        "summary": {"cards": 1, "healthy": 1, "pods": 1, "memory": "2 of 16 GiB"},
        "cards": [
            {
                "uuid": "GPU-0",
                "index": 0,
                "vendor": "nvidia",
                "model": "A100",
                "memory": 17179869184,
                "slots": 4,
                "dialects": ["tongue"],
            }
        ],
        "allocations": [
            {
                "uid": "old",
                "pod": "default/old",
                "dialect": "tongue",
                "grants": [
                    {"container": "main", "card": "GPU-0", "memory": 2147483648, "compute": 30}
                ],
            }
        ],
    }


def spoiled(change: str) -> Any:
    record = read(a_rich_ledger())
    card, pod = record["cards"][0], record["allocations"][0]
    match change:
        case "card twice":
            record["cards"].append(card)
        case "pod twice":
            record["allocations"].append(pod)
        case "negative memory":
            pod["grants"][0]["memory"] = -1
        case "negative slots":
            card["slots"] = -1
        case "unknown geometry":
            card["geometry"] = 9
        case "unknown level":
            card["links"][0]["level"] = "rack"
        case "unknown mode":
            card["mode"] = "quantum"
        case "no node":
            del record["node"]
        case _:
            raise ValueError(change)
    return record


@pytest.mark.parametrize(
    "change",
    [
        "card twice",
        "pod twice",
        "negative memory",
        "negative slots",
        "unknown geometry",
        "unknown level",
        "unknown mode",
        "no node",
    ],
)
def test_a_record_that_does_not_hold_together_is_refused(change: str) -> None:
    with pytest.raises(LedgerRecordError):
        decode(write(spoiled(change)))


@given(st.binary() | st.text().map(str.encode))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(LedgerRecordError):
        decode(garbage)


@given(ledgers(), st.data())
def test_a_damaged_record_is_a_ledger_or_an_error(ledger: NodeLedger, data: st.DataObject) -> None:
    record = bytearray(encode(ledger))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))

    try:
        decode(bytes(record))
    except LedgerRecordError:
        return


def test_the_record_of_a_full_node_is_far_below_what_etcd_takes() -> None:
    ledger = a_full_ledger()

    record = encode(ledger)
    began = time.perf_counter()
    for _ in range(20):
        encode(ledger)
    middle = time.perf_counter()
    for _ in range(20):
        decode(record)
    end = time.perf_counter()

    print(  # noqa: T201 (a measurement, shown by -s)
        f"8 cards, {len(ledger.allocations)} pods: {len(record)} bytes,"
        f" {ETCD_LIMIT // len(record)} times below etcd's limit;"
        f" encode {(middle - began) * 5e4:.0f} us, decode {(end - middle) * 5e4:.0f} us"
    )
    assert len(record) * 20 < ETCD_LIMIT


def a_full_ledger() -> NodeLedger:
    """8 cards that are cut by a long geometry, and 80 pods with names as long as real ones."""
    slot = Slice("1g.10gb", 0, 1, 10 * GIB, 14, "group1", 0)
    layouts = tuple(
        replace(
            a_mig_card().geometry.layouts[0],
            name=f"group{number}",
            slices=tuple(replace(slot, start=place, position=place) for place in range(7)),
        )
        for number in range(5)
    )
    cards = [
        replace(
            a_card(f"GPU-{number:08x}-aaaa-bbbb-cccc-{number:012x}", number, 80 * GIB, 10),
            mode=Mode.MIG,
            model="NVIDIA-NVIDIA A100-SXM4-80GB",
            numa=number // 4,
            links=tuple(Scope(level, f"{number // 4}") for level in Level),
            names=("NVIDIA-NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
            dialects=frozenset({"volcano", "koordinator", "metax"}),
            geometry=Geometry(layouts),
        )
        for number in range(8)
    ]
    ledger = empty(*cards, name="gpu-worker-0001.cluster.internal")
    for number in range(80):
        grant = Grant("inference-server", cards[number % 8].uuid, 10 * GIB, 14, slice=slot)
        pod = f"team-vision-production/inference-server-7d9c8b6f5-{number:05x}"
        ledger = ledger.adopt(
            replace(
                held(grant, uid=f"{number:08x}-1111-2222-3333-{number:012x}"),
                node=ledger.node.name,
                pod=pod,
                dialect="volcano",
            )
        )
    return ledger
