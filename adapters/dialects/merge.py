"""One node out of what several vocabularies say of it: a card that two describe is one card."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from adapters.dialects import hami_node
from adapters.dialects.dialect import Dialect, NodeDescription
from adapters.wire.hardware import NodeHardware
from adapters.wire.kube import DeviceObject, KubeNode
from core.hardware.card import Card, Mode, Scope
from core.hardware.mig import UNCUT
from core.hardware.mig_catalog import geometry
from core.hardware.node import Node
from core.hardware.quantity import show

MAX_MEMORY = 1 << 50
"""Bytes. A card that is said to have more is not believed, nor a record that holds more of one."""

MAX_INDEX = (1 << 31) - 1


def read_node(
    node: KubeNode,
    device: DeviceObject | None,
    dialects: Sequence[Dialect],
    agent: NodeHardware | None = None,
) -> tuple[Node, tuple[str, ...]]:
    """A node as all vocabularies together, HAMi, and our agent on it, describe it.

    Where two state the memory of a card and the difference is more than the coarser of them rounds
    off, the smaller counts and the difference is told. A card is healthy if all say so. Numbers
    that are written back (its index) come from the vocabulary that states memory most finely, and
    from the agent only for a card that no vocabulary describes.

    Args:
        node: the node object.
        device: Koordinator's inventory of it, if there is one.
        dialects: the vocabularies.
        agent: what our agent on the node says, if there is one.

    Returns:
        the node, and as sentences what could not be read or does not agree.
    """
    described = [dialect.read_node(node, device) for dialect in dialects]
    described.append(hami_node.read_hami_node(node))
    finest_first = sorted(described, key=lambda one: one.precision)
    if agent is not None:
        own = _own(agent)
        described.append(own)
        finest_first.append(own)
    problems = [problem for one in described for problem in one.problems]
    sayings: dict[str, list[tuple[Card, NodeDescription]]] = {}
    for one in finest_first:
        for card in one.cards:
            if card.memory > MAX_MEMORY or card.index > MAX_INDEX:
                said_to = f"number {card.index} and {show(card.memory)}"
                problems.append(f"card {card.uuid}: {said_to} are not believed; it is left out")
            else:
                sayings.setdefault(card.uuid, []).append((card, one))
    cards: list[Card] = []
    for said in sayings.values():
        card, disagreement = _merge(said)
        cards.append(card)
        problems += disagreement
    merged = Node(
        name=node.metadata.name,
        cards=tuple(sorted(cards, key=lambda card: (card.index, card.uuid))),
        isolation=next((one.isolation for one in described if one.isolation), None),
        partitions=next((one.partitions for one in described if one.partitions), ()),
        partitions_bind=any(one.partitions_bind for one in described),
        losses=next((one.losses for one in described if one.losses), ()),
        gains=next((one.gains for one in described if one.gains), ()),
    )
    return merged, tuple(problems)


def _merge(said: list[tuple[Card, NodeDescription]]) -> tuple[Card, list[str]]:
    base, finest = said[0]
    cards = [card for card, _ in said]
    memory = base.memory
    problems: list[str] = []
    for card, one in said[1:]:
        coarse = max(finest.precision, one.precision)
        if base.memory // coarse != card.memory // coarse:
            memory = min(memory, card.memory)
            problems.append(
                f"card {base.uuid}: {_by(base, finest)} states {show(base.memory)}, "
                f"{_by(card, one)} {show(card.memory)}; the smaller counts"
            )
    return replace(
        base,
        memory=memory,
        slots=min((c.slots for c, one in said if one.slots_stated), default=base.slots),
        healthy=all(card.healthy for card in cards),
        mode=next((card.mode for card in cards if card.mode is not Mode.SHARED), base.mode),
        numa=next((card.numa for card in cards if card.numa is not None), None),
        links=_links(cards),
        dialects=frozenset().union(*(card.dialects for card in cards)),
        names=tuple(dict.fromkeys(name for card in cards for name in card.names)),
        geometry=next((card.geometry for card in cards if card.geometry != UNCUT), UNCUT),
    ), problems


def _own(agent: NodeHardware) -> NodeDescription:
    """What our agent says, as one more description; the built-in layouts are those of MIG cards."""
    return NodeDescription(
        cards=tuple(
            replace(card, geometry=geometry((card.model, *card.names)))
            if card.mode is Mode.MIG
            else card
            for card in agent.cards
        ),
        slots_stated=False,
        isolation=agent.isolation,
        problems=tuple(f"card {uuid}: {text}" for uuid, text in agent.problems),
        source="the node agent",
    )


def _links(cards: Iterable[Card]) -> tuple[Scope, ...]:
    scopes: dict[int, Scope] = {}
    for card in cards:
        for scope in card.links:
            scopes.setdefault(scope.level, scope)
    return tuple(scopes[level] for level in sorted(scopes))


def _by(card: Card, one: NodeDescription) -> str:
    return one.source or "/".join(sorted(card.dialects))
