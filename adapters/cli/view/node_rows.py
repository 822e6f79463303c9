"""``top nodes`` and ``top cards``: what is allocated, and what is left."""

from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.cli.output.amounts import gib, percent, used, used_fields
from adapters.cli.output.rows import Column, Row
from adapters.cli.view.listing import Listing
from adapters.cli.view.plugin_rows import plugin_nodes, uncounted_nodes
from adapters.wire.agent_report import AgentReports, Use, total
from core.feasibility.fragmentation import FreeShares, free_shares
from core.hardware.card import Card
from core.hardware.quantity import FULL, MIB
from core.ledger.usage import CardUsage

_NODES = (
    Column("NODE"),
    Column("MODEL"),
    Column("CARDS", right=True),
    Column("IDLE", right=True),
    Column("PODS", right=True),
    Column("GRANTED(GiB)", right=True),
    Column("MEMORY(GiB)", right=True),
    Column("COMPUTE", right=True),
    Column("LARGEST(GiB)", right=True),
    Column("STRANDED(GiB)", right=True),
    Column("USED(GiB)", wide=True, right=True),
    Column("USED-COMPUTE", wide=True, right=True),
    Column("STRANDED-COMPUTE", wide=True, right=True),
    Column("FRAGMENTED", wide=True, right=True),
    Column("UNHEALTHY", wide=True, right=True),
    Column("DIALECTS", wide=True),
)

_NODE_KEYS = (
    "node", "model", "cards", "idle", "pods", "grantedMiB", "memoryMiB", "compute", "largestMiB",
    "strandedMiB", "strandedCompute", "fragmentation", "unhealthy", "dialects", "usedMiB",
    "usedCompute",
)  # fmt: skip

_CARDS = (
    Column("NODE"),
    Column("CARD", right=True),
    Column("MODEL"),
    Column("PODS", right=True),
    Column("GRANTED(GiB)", right=True),
    Column("MEMORY(GiB)", right=True),
    Column("COMPUTE", right=True),
    Column("SLOTS", right=True),
    Column("STATE"),
    Column("USED(GiB)", wide=True, right=True),
    Column("USED-COMPUTE", wide=True, right=True),
    Column("UUID", wide=True),
    Column("DIALECTS", wide=True),
)

_CARD_KEYS = (
    "node", "index", "model", "uuid", "pods", "grantedMiB", "memoryMiB", "compute", "slotsUsed",
    "slots", "state", "dialects", "usedMiB", "usedCompute",
)  # fmt: skip


def top_nodes(fleet: Fleet) -> Listing:
    """Return one row for each node and model; memory in GiB, compute in percent of one card."""
    rows = [
        _node_row(name, state, left, fleet.agents)
        for name, state in fleet.nodes.items()
        for left in free_shares(state.ledger)
    ]
    further, notes = plugin_nodes(fleet), uncounted_nodes(fleet)
    return Listing("NodeList", _NODES, tuple(rows), _NODE_KEYS, further, notes)


def top_cards(fleet: Fleet) -> Listing:
    """Return one row for each card."""
    rows = [
        _card_row(name, card, use, fleet.agents.card(name, card.uuid))
        for name, state in fleet.nodes.items()
        for card, use in zip(state.node.cards, state.ledger.usages, strict=True)
    ]
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
    return "shared" if use.shares else "idle"


def _node_row(name: str, state: NodeState, left: FreeShares, agents: AgentReports) -> Row:
    every = zip(state.node.cards, state.ledger.usages, strict=True)
    members = [(card, use) for card, use in every if card.model == left.model]
    in_use = total(agents.card(name, card.uuid) for card, _ in members)
    pods = len({share.uid for _, use in members for share in use.shares})
    granted = sum(use.memory for _, use in members)
    memory = sum(card.memory for card, _ in members)
    compute = sum(use.compute for _, use in members)
    of_compute = sum(card.compute for card, _ in members)
    unhealthy = sum(not card.healthy for card, _ in members)
    dialects = sorted({dialect for card, _ in members for dialect in card.dialects})
    return Row(
        f"node/{name}",
        (
            name, left.model, str(left.cards), str(left.idle), str(pods), gib(granted), gib(memory),
            f"{compute}/{of_compute}%", gib(left.largest), gib(left.stranded),
            *used(in_use), percent(left.stranded_compute), percent(left.fragmentation),
            str(unhealthy), ",".join(dialects),
        ),
        {
            "node": name, "model": left.model, "cards": left.cards, "idle": left.idle, "pods": pods,
            "grantedMiB": granted // MIB, "memoryMiB": memory // MIB, "compute": compute,
            "largestMiB": left.largest // MIB, "strandedMiB": left.stranded // MIB,
            "strandedCompute": left.stranded_compute, "fragmentation": left.fragmentation,
            "unhealthy": unhealthy, "dialects": dialects,
            **used_fields(in_use),
        },
    )  # fmt: skip


def _card_row(node: str, card: Card, use: CardUsage, in_use: Use) -> Row:
    state, dialects = state_of(card, use), sorted(card.dialects)
    pods = len(use.shares)
    of_compute = "" if card.compute == FULL else f"/{percent(card.compute)}"
    return Row(
        f"card/{card.uuid}",
        (
            node, str(card.index), card.model, str(pods), gib(use.memory), gib(card.memory),
            f"{percent(use.compute)}{of_compute}", f"{use.slots}/{card.slots}", state,
            *used(in_use), card.uuid, ",".join(dialects),
        ),
        {
            "node": node, "index": card.index, "model": card.model, "uuid": card.uuid, "pods": pods,
            "grantedMiB": use.memory // MIB, "memoryMiB": card.memory // MIB,
            "compute": use.compute, "slotsUsed": use.slots, "slots": card.slots, "state": state,
            "dialects": dialects, **used_fields(in_use),
        },
    )  # fmt: skip
