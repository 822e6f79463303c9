"""Nodes and cards: what is allocated, what is left, and what device plugins serve beside it."""

from adapters.accounting.pod_requests import dialect_name
from adapters.answer.device_plugins import devices_text
from adapters.cli.fleet.facts import plugin_devices
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.output.rows import Row, columns
from adapters.cli.view.listing import FurtherRows, Listing
from adapters.dialects.unread_keys import uncounted
from adapters.wire.agent_report import Use, total
from adapters.wire.kube import pod_ref
from core.feasibility.fragmentation import free_shares
from core.hardware.card import Card
from core.hardware.quantity import FULL, MIB
from core.hardware.quantity import format_gib as gib
from core.ledger.usage import CardUsage

_NODES = (
    *columns("NODE", "MODEL"),
    *columns("CARDS", "IDLE", "PODS", "GRANTED(GiB)", "MEMORY(GiB)", "COMPUTE", right=True),
    *columns("LARGEST(GiB)", "STRANDED(GiB)", right=True),
    *columns("USED(GiB)", "USED-COMPUTE", "STRANDED-COMPUTE", wide=True, right=True),
    *columns("FRAGMENTED", "UNHEALTHY", wide=True, right=True),
    *columns("DIALECTS", wide=True),
)

_NODE_KEYS = (
    "node", "model", "cards", "idle", "pods", "grantedMiB", "memoryMiB", "compute", "largestMiB",
    "strandedMiB", "strandedCompute", "fragmentation", "unhealthy", "dialects", "usedMiB",
    "usedCompute",
)  # fmt: skip

_CARDS = (
    *columns("NODE"),
    *columns("CARD", right=True),
    *columns("MODEL"),
    *columns("PODS", "GRANTED(GiB)", "MEMORY(GiB)", "COMPUTE", "SLOTS", right=True),
    *columns("STATE"),
    *columns("USED(GiB)", "USED-COMPUTE", wide=True, right=True),
    *columns("UUID", "DIALECTS", wide=True),
)

_CARD_KEYS = (
    "node", "index", "model", "uuid", "pods", "grantedMiB", "memoryMiB", "compute", "slotsUsed",
    "slots", "state", "problem", "dialects", "usedMiB", "usedCompute",
)  # fmt: skip

_PLUGIN_NODES = (
    *columns("NODE", "RESOURCE", "PRODUCT"),
    *columns("MEMORY(GiB)", "REPLICAS", "IN USE/ALLOCATABLE", right=True),
    *columns("CARDS", wide=True, right=True),
    *columns("SHARING", "MIG", wide=True),
    *columns("UNHEALTHY", wide=True, right=True),
)

_PLUGIN_NODE_KEYS = (
    "node", "resource", "product", "memoryMiB", "replicas", "inUse", "allocatable", "cards",
    "sharing", "migStrategy", "unhealthy",
)  # fmt: skip

_USERS = columns("NAMESPACE", "POD", "DIALECT", "NODE", "DEVICES")

_USER_KEYS = ("namespace", "pod", "dialect", "node", "devices")


def top_nodes(fleet: Fleet) -> Listing:
    """Return one row for each node and model; memory in GiB, compute in percent of one card.

    The further rows are the resources of device plugins on nodes without cards of a ledger.
    """
    rows: list[Row] = []
    for name, state in fleet.nodes.items():
        for left in free_shares(state.ledger):
            every = zip(state.node.cards, state.ledger.usages, strict=True)
            members = [(card, use) for card, use in every if card.model == left.model]
            in_use = total(fleet.agents.card(name, card.uuid) for card, _ in members)
            pods = len({share.uid for _, use in members for share in use.shares})
            granted = sum(use.memory for _, use in members)
            memory = sum(card.memory for card, _ in members)
            compute = sum(use.compute for _, use in members)
            of_compute = sum(card.compute for card, _ in members)
            unhealthy = sum(not card.healthy for card, _ in members)
            dialects = sorted({dialect for card, _ in members for dialect in card.dialects})
            cells: tuple[str, ...] = (
                name, left.model, str(left.cards), str(left.idle), str(pods), gib(granted),
                gib(memory), f"{compute}/{of_compute}%", gib(left.largest), gib(left.stranded),
                *used(in_use), f"{left.stranded_compute}%", f"{left.fragmentation}%",
                str(unhealthy), ",".join(dialects),
            )  # fmt: skip
            fields = {
                "node": name, "model": left.model, "cards": left.cards, "idle": left.idle,
                "pods": pods, "grantedMiB": granted // MIB, "memoryMiB": memory // MIB,
                "compute": compute, "largestMiB": left.largest // MIB,
                "strandedMiB": left.stranded // MIB, "strandedCompute": left.stranded_compute,
                "fragmentation": left.fragmentation, "unhealthy": unhealthy, "dialects": dialects,
                **used_fields(in_use),
            }  # fmt: skip
            rows.append(Row(f"node/{name}", cells, fields))
    devices = plugin_devices(fleet)
    served: list[Row] = []
    for name, node in devices.nodes.items():
        for resource in node.resources.values():
            unusable = resource.capacity - resource.allocatable
            taken = devices.in_use(name, resource.name)
            cells = (
                name, resource.name, resource.product,
                "" if resource.memory is None else gib(resource.memory), str(resource.replicas),
                f"{taken}/{resource.allocatable}", "" if node.cards is None else str(node.cards),
                resource.sharing, node.mig_strategy, str(unusable),
            )  # fmt: skip
            fields = {
                "node": name, "resource": resource.name, "product": resource.product,
                "memoryMiB": None if resource.memory is None else resource.memory // MIB,
                "replicas": resource.replicas, "inUse": taken,
                "allocatable": resource.allocatable, "cards": node.cards,
                "sharing": resource.sharing, "migStrategy": node.mig_strategy,
                "unhealthy": unusable,
            }  # fmt: skip
            served.append(Row(f"node/{name}", cells, fields))
    title = "Served by device plugins, not in the ledger"
    further = FurtherRows(title, "devicePlugins", _PLUGIN_NODES, tuple(served), _PLUGIN_NODE_KEYS)
    return Listing("NodeList", _NODES, tuple(rows), _NODE_KEYS, further, uncounted_nodes(fleet))


def top_cards(fleet: Fleet) -> Listing:
    """Return one row for each card."""
    rows: list[Row] = []
    for node, state in fleet.nodes.items():
        for card, use in zip(state.node.cards, state.ledger.usages, strict=True):
            in_use = fleet.agents.card(node, card.uuid)
            standing, dialects, pods = state_of(card, use), sorted(card.dialects), len(use.shares)
            of_compute = "" if card.compute == FULL else f"/{card.compute}%"
            cells = (
                node, str(card.index), card.model, str(pods), gib(use.memory), gib(card.memory),
                f"{use.compute}%{of_compute}", f"{use.slots}/{card.slots}",
                f"{standing}: {card.problem}" if card.problem else standing,
                *used(in_use), card.uuid, ",".join(dialects),
            )  # fmt: skip
            fields = {
                "node": node, "index": card.index, "model": card.model, "uuid": card.uuid,
                "pods": pods, "grantedMiB": use.memory // MIB, "memoryMiB": card.memory // MIB,
                "compute": use.compute, "slotsUsed": use.slots, "slots": card.slots,
                "state": standing, "problem": card.problem, "dialects": dialects,
                **used_fields(in_use),
            }  # fmt: skip
            rows.append(Row(f"card/{card.uuid}", cells, fields))
    return Listing("CardList", _CARDS, tuple(rows), _CARD_KEYS)


def state_of(card: Card, use: CardUsage) -> str:
    """Return what a person should know about a card, in a word or two."""
    if not card.healthy:
        return "unhealthy"
    if any(share.blocked for share in use.shares):
        return "blocked: which cards a pod has is unknown"
    if use.memory > card.memory or use.compute > card.compute or use.slots > card.slots:
        return "over-allocated"
    if any(share.exclusive for share in use.shares):
        return "exclusive"
    if card.problem and not use.shares:
        return "unusable"
    if use.memory == card.memory or use.compute == card.compute or use.slots == card.slots:
        return "full"
    return "shared" if use.shares else "idle"


def uncounted_nodes(fleet: Fleet, only: str | None = None) -> tuple[str, ...]:
    """Return a sentence for each uncounted resource of accelerators, of one node or of all."""
    nodes: dict[str, list[str]] = {}
    for name, state in fleet.nodes.items():
        stated = state.kube.status.allocatable or {}
        for resource in uncounted(stated, fleet.dialects) if only in (None, name) else ():
            nodes.setdefault(resource, []).append(name)
    sentences: list[str] = []
    for resource, names in sorted(nodes.items()):
        stating = f"{names[0]} states" if len(names) == 1 else f"{len(names)} nodes state"
        sentences.append(f"{stating} {resource}, which Dragoman does not count")
    return tuple(sentences)


def device_users(fleet: Fleet, node: str | None = None) -> FurtherRows:
    """Return one row for each pod with devices of a plugin; of one node, or of all for None."""
    rows: list[Row] = []
    for name, users in plugin_devices(fleet).users.items():
        for user in users if node in (None, name) else ():
            ref, dialect = pod_ref(user.pod), dialect_name(user.pod, fleet.dialects)
            if dialect == "koordinator":  # the pod may name only the resource of a vendor's plugin
                dialect = next(iter(user.amounts)).partition(".")[0]
            devices = devices_text(user.amounts)
            cells = (ref.namespace, ref.name, dialect or "", name, devices)
            fields = {
                "namespace": ref.namespace, "pod": ref.name, "dialect": dialect, "node": name,
                "devices": dict(user.amounts),
            }  # fmt: skip
            rows.append(Row(f"pod/{ref.name}", cells, fields))
    title = "With devices of device plugins, not in the ledger"
    return FurtherRows(title, "devicePlugins", _USERS, tuple(rows), _USER_KEYS)


def used(use: Use) -> tuple[str, str]:
    """Return memory in GiB and compute in percent; empty where it is unknown."""
    memory = "" if use.memory is None else gib(use.memory)
    return memory, "" if use.compute is None else f"{use.compute}%"


def used_fields(use: Use) -> dict[str, int | None]:
    """Return a card's use as fields of JSON, YAML and CSV; memory in MiB, compute in percent."""
    memory = None if use.memory is None else use.memory // MIB
    return {"usedMiB": memory, "usedCompute": use.compute}
