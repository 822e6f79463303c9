"""Whether ledgers say what pods hold, by the witness."""

from collections.abc import Sequence

from e2e.adversary.rules import Held
from e2e.adversary.world import World
from e2e.harness.cluster.api import Object

MIB = 1 << 20
Shares = list[tuple[object, ...]]


def differences(world: World) -> list[str]:
    """Where a ledger does not have exactly what a pod holds, or does not keep its cards free."""
    found = []
    for node, place in world.places.items():
        present = {card.uuid for card in place.cards}
        ledger = world.ledger(node) or {}
        rows = {row["uid"]: row for row in ledger.get("allocations", ())}
        for uid, held in world.witness.holders(node).items():
            row = rows.get(uid, {})
            blocked = {one.card for one in held} & present <= set(row.get("blocked", ()))
            if held and not ("unread" in row and blocked) and shares(held) != granted(row):
                found.append(f"{held[0].pod} on {node}: {shares(held)}, ledger {row}")
    return found


def shares(held: Sequence[Held]) -> Shares:
    """What a pod holds, to be compared with ``granted``."""
    return sorted(
        (one.card, one.memory, one.compute)
        if one.part is None
        else (one.card, one.part.group, one.part.start, one.part.size)
        for one in held
    )


def granted(row: Object) -> Shares:
    """What an allocation of a ledger grants, to be compared with ``shares``."""
    return sorted(
        (grant["card"], grant["memory"] // MIB, grant["compute"])
        if "slice" not in grant
        else (grant["card"], *(grant["slice"][key] for key in ("layout", "start", "size")))
        for grant in row.get("grants", ())
    )
