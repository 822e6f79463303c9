"""What grants of the ledger mean: for the record on the pod, and inside of a container.

Written from the ledger's fields and from what the runtime and HAMi-core obey, not with the agent's
own code. The profile of MetaX's cards is the one of ``real_node``.
"""

from collections.abc import Sequence

from e2e.harness.cluster.api import Object
from e2e.harness.oracles.from_annotations import Share

FULL = 100
MIB = 1 << 20


def granted_shares(grants: Sequence[Object]) -> list[Share]:
    """The ledger's grants in the words of a record on a pod."""
    return sorted(
        Share(grant["card"], grant["memory"] // MIB, grant["compute"]) for grant in grants
    )


def slices_in_groups(grants: Sequence[Object]) -> list[Share]:
    """The ledger's grants of slices as Volcano names them: by their group and place."""
    shares = []
    for grant in grants:
        part = grant["slice"]
        card = f"{grant['card']}[{part['layout']}-{part['position']}]"
        shares.append(Share(card, grant["memory"] // MIB, grant["compute"]))
    return sorted(shares)


def instance_uuid(card: str, part: Object) -> str:
    """The uuid of the instance that stands for a slice of a card in the tests."""
    return f"MIG-{card}-{part['profile']}-{part['start']}"


def inventory_card(record: Object, card: Object, folder: str = "") -> Object:
    """A card of a ledger's record as a row of an agent's list of cards.

    A card in MIG mode has the instances of its first layout; where instances are made one by one,
    as HAMi's device plugin does it, the list has each that may be made.

    Args:
        record: of the node.
        card: of the record.
        folder: in which the node's device nodes are.
    """
    row = {key: card[key] for key in ("uuid", "index", "vendor", "model")}
    row |= {"memoryMiB": card["memory"] // MIB, "mode": card.get("mode", "shared")}
    if "geometry" in card:
        geometry = record["geometries"][card["geometry"]]
        layouts = geometry["layouts"] if geometry.get("mixed") else geometry["layouts"][:1]
        row["instances"] = [
            {
                "profile": part["profile"],
                "start": part["start"],
                "uuid": instance_uuid(card["uuid"], part),
                "devices": [
                    f"{folder}/dev/nvidia{card['index']}",
                    f"{folder}/dev/nvidia-cap{part['start']}",
                ],
            }
            for layout in layouts
            for part in layout["slices"]
        ]
    return row


def expected_env(record: Object, grants: Sequence[Object]) -> dict[str, str | None]:
    """What a container with these grants of the ledger must find; None for nothing."""
    cards = {card["uuid"]: card for card in record["cards"]}
    rows = sorted(grants, key=lambda grant: int(cards[grant["card"]]["index"]))
    if cards[rows[0]["card"]]["vendor"] == "metax":
        return {
            "NVIDIA_VISIBLE_DEVICES": "void",
            "METAX_VISIBLE_DEVICES": ",".join(str(cards[row["card"]]["index"]) for row in rows),
            "METAX_MEMORY_MIB": ",".join(str(row["memory"] // MIB) for row in rows),
            "METAX_COMPUTE": ",".join(str(row["compute"]) for row in rows),
        }
    names = [
        instance_uuid(row["card"], row["slice"]) if "slice" in row else row["card"] for row in rows
    ]
    env: dict[str, str | None] = {"NVIDIA_VISIBLE_DEVICES": ",".join(names)}
    is_loaded = False
    for place, row in enumerate(rows):
        shared = "slice" not in row and not row.get("exclusive") and 0 < row["compute"] < FULL
        env[f"CUDA_DEVICE_SM_LIMIT_{place}"] = str(row["compute"]) if shared else None
        bounded = "slice" not in row and row["memory"] < cards[row["card"]]["memory"]
        is_loaded |= shared or bounded
    for place, row in enumerate(rows):
        text = f"{row['memory'] // MIB}m" if is_loaded else None
        env[f"CUDA_DEVICE_MEMORY_LIMIT_{place}"] = text
    return env


def expected_devices(record: Object, grants: Sequence[Object]) -> set[str]:
    """Names of the device nodes that a container with these grants must find, and no others."""
    cards = {card["uuid"]: card for card in record["cards"]}
    found = set()
    for grant in grants:
        card = cards[grant["card"]]
        metax = card["vendor"] == "metax"
        found |= (
            {f"card{card['index']}", "mxcd"} if metax else {f"nvidia{card['index']}", "nvidiactl"}
        )
        if "slice" in grant:
            found.add(f"nvidia-cap{grant['slice']['start']}")
    return found
