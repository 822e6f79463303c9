"""Choices of cards as other schedulers write them, right ones and hostile ones."""

import json
from collections.abc import Sequence
from random import Random

from e2e.adversary.cards import LAYOUTS, Card
from e2e.adversary.emitted import RECORDS
from e2e.adversary.wanted import Wanted
from e2e.harness.names import CORE, RATIO

OWN = "dragoman.dev/allocation"
# HAMi v2.10 pkg/device/nvidia/device.go, InitNvidiaDevice
HAMI_ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "volcano.sh/devices-to-allocate"
RESULT_KEYS = (OWN, *RECORDS.values(), HAMI_ALLOCATED, TO_ALLOCATE, "hami.io/vgpu-node")


def claim(
    asked: Wanted, cards: Sequence[Card], amounts: Sequence[tuple[int, int]]
) -> dict[str, str]:
    """The record of a choice.

    Args:
        asked: by the pod.
        cards: one for each share, in the order of the containers.
        amounts: MiB and percent of each.
    """
    match asked.dialect:
        case "koordinator":
            devices = [
                {
                    "minor": card.minor or 0,
                    "id": card.uuid,
                    "resources": {
                        **({CORE: str(compute)} if compute else {}),
                        "koordinator.sh/gpu-memory": f"{memory}Mi",
                        RATIO: str(max(memory * 100 // card.memory, 1)),
                    },
                }
                for card, (memory, compute) in zip(cards, amounts, strict=True)
            ]
            text = json.dumps({"gpu": devices})
        case "volcano":
            rows = [
                f"{card.uuid}{'[group1-0]' if card.mig else ''},NVIDIA,{memory},{compute}:"
                for card, (memory, compute) in zip(cards, amounts, strict=True)
            ]
            text = ";".join(_by_container(asked, rows))
        case "hami":
            rows = [
                f"{card.uuid},NVIDIA,{memory},{compute}:"
                for card, (memory, compute) in zip(cards, amounts, strict=True)
            ]
            text = "".join(f"{row};" for row in _by_container(asked, rows))
            return {RECORDS["hami"]: text, HAMI_ALLOCATED: text}
        case _:
            rows = [
                f"{card.uuid},Metax-SGPU,{memory},{compute}:"
                for card, (memory, compute) in zip(cards, amounts, strict=True)
            ]
            text = f"{''.join(rows)};"
    return {RECORDS[asked.dialect]: text}


def _by_container(asked: Wanted, rows: Sequence[str]) -> list[str]:
    """The rows of each container, joined."""
    counts = [part.count for part in asked.parts]
    return ["".join(rows[sum(counts[:at]) :][:count]) for at, count in enumerate(counts)]


def exact(asked: Wanted, cards: Sequence[Card]) -> dict[str, str]:
    """The record of these cards with the amounts of the request."""
    parts = [part for part in asked.parts for _ in range(part.count)]
    amounts = [
        (part.memory_on(card.memory), part.compute) for part, card in zip(parts, cards, strict=True)
    ]
    return claim(asked, cards, amounts)


def hostile(dice: Random, asked: Wanted, cards: Sequence[Card]) -> dict[str, str]:
    """Annotations that an unfaithful scheduler brings: other amounts, any card, garbage."""
    count = sum(part.count for part in asked.parts)
    chosen = [dice.choice(cards) for _ in range(count)]
    match dice.randrange(4):
        case 0:
            return exact(asked, chosen)
        case 1:
            amounts = [(dice.choice((1, 500, 70000)), dice.choice((0, 1, 100))) for _ in chosen]
            return claim(asked, chosen, amounts)
        case 2:
            rows = [
                {"container": name, "card": card.uuid, "memory": 1 << 20, "phase": "init"}
                for name, card in zip(("main", "second"), chosen, strict=False)
            ]
            return {OWN: json.dumps(rows), **exact(asked, chosen)}
        case _:
            slot = f"{dice.choice([*LAYOUTS])}-{dice.randrange(4)}"
            text = f"{dice.choice(cards).uuid}[{slot}],NVIDIA,1,0:"
            return {RECORDS["volcano"]: text, OWN: "[{]"}
