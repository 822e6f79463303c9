"""The mirrored records that pods must have by what they hold, and whether they have them.

By rules of the adversary's own. Sources: docs/reference/mirrors.md; volcano v1.14.1
pkg/scheduler/api/devices/nvidia/vgpu/utils.go decodeContainerDevices; koordinator v1.8.0
apis/extension/device_share.go DeviceAllocations.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from e2e.adversary.cards import Card
from e2e.adversary.emitted import RECORDS
from e2e.adversary.rules import FULL, Held, peak
from e2e.adversary.wanted import wanted
from e2e.adversary.world import World
from e2e.harness.cluster.api import Object
from e2e.harness.names import CORE, RATIO
from e2e.harness.oracles.from_annotations import bytes_of

TARGETS = ("volcano", "koordinator")
MARKS = {name: f"dragoman.dev/mirror-{name}" for name in TARGETS}
MIB = 1 << 20
Rows = list[tuple[object, ...]]
"""What a record says of cards, in an order of its own."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pod leaves no room for on a card.

    Attributes:
        card: the card.
        memory: MiB.
        compute: percent.
        places: for containers.
        whole: nothing of the card is left.
    """

    card: Card
    memory: int
    compute: int
    places: int = 1
    whole: bool = False


def wrong_mirrors(world: World) -> list[str]:
    """Where a bound pod has other mirrored records than what it holds asks for, as sentences."""
    pods = {pod["metadata"]["uid"]: pod for pod in world.pods()}
    return [
        text
        for node, place in world.places.items()
        for uid, taken in _taken(world, node, place.cards)
        if uid in pods
        for text in differences(pods[uid], taken, world.mirrors)
    ]


def differences(pod: Object, taken: Sequence[Taken], targets: Iterable[str]) -> Iterator[str]:
    """Where the records of a pod and their marks are not the mirrors of what it holds.

    Args:
        pod: as the API server has it.
        taken: of each card that it holds a part of.
        targets: the dialects in whose words pods of others say what they hold.
    """
    asked = wanted(pod)
    texts: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    for target in targets:
        record, mark = texts.get(RECORDS[target]), texts.get(MARKS[target])
        rows = expected(target, taken)
        if asked is not None and asked.dialect == target:
            is_right = mark is None
        elif rows:
            is_right = mark == "true" and said(target, record or "") == rows
        else:
            is_right = record is None and mark is None
        if not is_right:
            name = pod["metadata"]["name"]
            yield f"mirrors: {name} says {target} {record} marked {mark}, not {rows}"


def expected(target: str, taken: Sequence[Taken]) -> Rows:
    """What the mirror for a peer says; empty where the peer describes none of the cards."""
    rows: Rows = []
    for one in taken:
        card = one.card
        if target not in card.dialects:
            continue
        if target == "koordinator":
            ratio = -(-one.memory * FULL // card.memory)
            rows.append((card.minor, card.uuid, one.memory * MIB, ratio, one.compute))
        elif card.mig:
            rows.append((f"{card.uuid}[dragoman-0]", 0, FULL))
        else:
            rows.append((card.uuid, one.memory, one.compute))
            rows += [(card.uuid, 1, 0)] * (0 if one.whole else one.places - 1)
    return rows


def said(target: str, record: str) -> Rows | None:
    """What a record says to a peer; None where it cannot be read."""
    with suppress(ValueError, LookupError, TypeError):
        if target == "koordinator":
            return [_device(row) for row in json.loads(record)["gpu"]]
        devices = [each.split(",") for each in record.removesuffix(":").split(":")]
        return [(card, int(memory), int(compute)) for card, _, memory, compute in devices]
    return None


def _device(row: Object) -> tuple[object, ...]:
    amounts = row["resources"]
    memory = bytes_of(amounts["koordinator.sh/gpu-memory"])
    return row["minor"], row["id"], memory, int(amounts[RATIO]), int(amounts.get(CORE, 0))


def _taken(world: World, node: str, cards: Sequence[Card]) -> Iterator[tuple[str, list[Taken]]]:
    """By uid, what each holder in a node's ledger leaves no room for."""
    holders = world.witness.holders(node)
    for row in (world.ledger(node) or {}).get("allocations", ()):
        uid = row["uid"]
        if "unread" in row:
            blocked = row.get("blocked", ())
            yield uid, [_whole(card, 1) for card in cards if card.uuid in blocked]
        elif uid in holders:
            yield uid, taken_of(holders[uid], cards)


def taken_of(held: Sequence[Held], cards: Sequence[Card]) -> list[Taken]:
    """What a pod leaves no room for on the cards that its node has now."""
    found = []
    for card in cards:
        rows = [one for one in held if one.card == card.uuid]
        places = peak(rows, lambda _: 1)
        if card.mig or any(map(_takes_all, rows)):
            found.append(_whole(card, places))
        else:
            memory, compute = (
                peak(rows, lambda one: one.memory),
                peak(rows, lambda one: one.compute),
            )
            found.append(Taken(card, memory, compute, places))
    return [each for each in found if each.places]


def _takes_all(one: Held) -> bool:
    """Whether a peer's record cannot say beside which other pods this one may be."""
    terms = one.terms
    return one.exclusive or terms.task_class != "normal" or terms.qos not in (None, "best-effort")


def _whole(card: Card, places: int) -> Taken:
    return Taken(card, card.memory, FULL, places, whole=True)
