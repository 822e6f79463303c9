"""Merges what several sources report about a node: a card that two describe is one card."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from adapters.dialects.dialect import NO_SCORES, Dialect, NodeDescription
from adapters.wire.kube import DeviceObject, KubeNode
from adapters.wire.records.hardware import NodeHardware
from core.hardware.card import Card, Mode, Scope
from core.hardware.mig import NO_GEOMETRY
from core.hardware.mig_catalog import geometry
from core.hardware.node import Node
from core.hardware.quantity import MAX_COMPUTE, MAX_MEMORY, MAX_NUMBER, format_bytes

T = TypeVar("T")


def read_node(
    node: KubeNode,
    device: DeviceObject | None,
    dialects: Sequence[Dialect],
    agent: NodeHardware | None = None,
    more: Sequence[NodeDescription] = (),
) -> tuple[Node, tuple[str, ...]]:
    """Merge what all dialects and our agent on the node report about it.

    Where two sources state the memory of a card and the difference is more than the coarser one
    rounds off, the smaller amount counts and the difference becomes a problem. Of compute the
    smaller amount counts too: a dialect whose words have none means 100 percent. A card is healthy
    if all sources report it healthy, and none closes it or reports an impossible amount of it.
    Numbers that results contain (its index) come from the dialect that states memory most
    precisely, and from the agent or from ``more`` only for a card that no dialect describes.

    Layouts of a card can be mixed only where our agent creates its instances: Volcano's device
    plugin applies whole groups by ``nvidia-mig-parted apply``, and ends by ``klog.Fatalf`` where
    that fails (volcano-vgpu-device-plugin pkg/plugin).

    Args:
        node: the node object.
        device: Koordinator's inventory of it; None where there is none.
        dialects: all dialects.
        agent: what our agent on the node reports; None where there is none.
        more: what sources that are no dialect report, such as ResourceSlices.

    Returns:
        the node, and as sentences what could not be parsed or does not agree.
    """
    described = [dialect.read_node(node, device) for dialect in dialects]
    others = [*more] if agent is None else [_agent_description(agent), *more]
    finest_first = [*sorted(described, key=lambda one: one.precision), *others]
    described += others
    cut = frozenset[str]()
    if agent is not None and agent.mig_cut:
        cut = frozenset(card.uuid for card in agent.cards)
    cards, doubts = _merge_cards(finest_first, cut)
    stated = next((one.scores for one in described if one.scores), NO_SCORES)
    rows = tuple(
        tuple(0 if one is other else stated.get(one.uuid, {}).get(other.uuid, 0) for other in cards)
        for one in cards
    )
    merged = Node(
        name=node.metadata.name,
        cards=cards,
        isolation=next((one.isolation for one in described if one.isolation), None),
        partitions=next((one.partitions for one in described if one.partitions), ()),
        partitions_bind=any(one.partitions_bind for one in described),
        losses=next((one.losses for one in described if one.losses), ()),
        gains=next((one.gains for one in described if one.gains), ()),
        scores=rows if any(map(any, rows)) else (),
    )
    known = {card.uuid for card in cards}
    problems = [problem for one in described for problem in one.problems]
    problems += [why for one in others for uuid, why in one.uncounted if uuid not in known]
    closed = (each for one in others for each in one.closed)
    problems += [f"card {uuid}: {why}" for uuid, why in dict.fromkeys(closed) if uuid in known]
    return merged, (*problems, *doubts)


def _merge_cards(
    finest_first: Sequence[NodeDescription], cut: Collection[str]
) -> tuple[tuple[Card, ...], list[str]]:
    """Merge the cards of all sources by uuid.

    Args:
        finest_first: the sources; the first one that describes a card gives its numbers.
        cut: cards of which our agent creates the MIG instances.

    Returns:
        the cards by ascending index, and as sentences what is out of range or does not agree.
    """
    reports: dict[str, list[tuple[Card, NodeDescription]]] = {}
    closed = {uuid: why for one in finest_first for uuid, why in one.closed}
    problems: list[str] = []
    for one in finest_first:
        for card in one.cards:
            # Out of range is what no card has, or a ledger cannot contain.
            if (
                0 < card.memory <= MAX_MEMORY
                and 0 < card.slots <= MAX_NUMBER
                and 0 <= card.compute <= MAX_COMPUTE
                and 0 <= card.index <= MAX_NUMBER
                and 0 <= (card.numa or 0) <= MAX_NUMBER
            ):
                reports.setdefault(card.uuid, []).append((card, one))
                continue
            closed[card.uuid] = "its description is out of range"
            numa = "" if card.numa is None else f", NUMA node {card.numa}"
            problems.append(
                f"card {card.uuid}: number {card.index}, {card.slots} slots{numa} and"
                f" {format_bytes(card.memory)} are out of range; the card gets no new pod"
            )
    cards: list[Card] = []
    for uuid, reported in reports.items():
        card, disagreement = _merge_card(reported)
        if uuid in cut and card.geometry.layouts:
            card = replace(card, geometry=replace(card.geometry, mixed=True))
        if uuid in closed:
            card = replace(card, healthy=False, problem=closed[uuid])
        cards.append(card)
        problems += disagreement
    return tuple(sorted(cards, key=lambda card: (card.index, card.uuid))), problems


def _merge_card(reports: list[tuple[Card, NodeDescription]]) -> tuple[Card, list[str]]:
    base, finest = reports[0]
    cards = [card for card, _ in reports]
    described = any(card.dialects for card in cards)
    memory = base.memory
    links: dict[int, Scope] = {}
    for scope in (scope for card in cards for scope in card.links):
        links.setdefault(scope.level, scope)
    problems: list[str] = []
    for card, one in reports[1:]:
        coarse = max(finest.precision, one.precision)
        if base.memory // coarse != card.memory // coarse:
            memory = min(memory, card.memory)
            problems.append(
                f"card {base.uuid}: {_source(base, finest)} states {format_bytes(base.memory)}, "
                f"{_source(card, one)} {format_bytes(card.memory)}; the smaller counts"
            )
    return replace(
        base,
        memory=memory,
        slots=min((c.slots for c, one in reports if one.slots_stated), default=base.slots),
        healthy=all(card.healthy for card in cards),
        problem=next(
            (
                card.problem
                for card in cards
                if card.problem and (not card.healthy or card.dialects or not described)
            ),
            "",
        ),
        mode=next((card.mode for card in cards if card.mode is not Mode.SHARED), base.mode),
        numa=next((card.numa for card in cards if card.numa is not None), None),
        model=_shared(base.model),
        links=_shared(tuple(links[level] for level in sorted(links))),
        dialects=_shared(frozenset[str]().union(*(card.dialects for card in cards))),
        names=_shared(tuple(dict.fromkeys(name for card in cards for name in card.names))),
        geometry=next(
            (card.geometry for card in cards if card.geometry != NO_GEOMETRY), NO_GEOMETRY
        ),
        compute=min((c.compute for c, one in reports if one.compute_stated), default=base.compute),
    ), problems


@lru_cache(maxsize=1024)
def _shared(part: T) -> T:
    """Return one object for all cards that are equal in a part: a large cluster has few models."""
    return part


def _agent_description(agent: NodeHardware) -> NodeDescription:
    """Return what our agent reports; MIG cards get the built-in layouts of their model."""
    problems = dict(agent.problems)
    return NodeDescription(
        cards=tuple(
            replace(
                card,
                geometry=geometry((card.model, *card.names))
                if card.mode is Mode.MIG
                else card.geometry,
                problem="" if card.healthy else problems.get(card.uuid, ""),
            )
            for card in agent.cards
        ),
        slots_stated=False,
        compute_stated=False,
        isolation=agent.isolation,
        problems=tuple(f"card {uuid}: {text}" for uuid, text in agent.problems),
        source="the node agent",
    )


def _source(card: Card, one: NodeDescription) -> str:
    return one.source or "/".join(sorted(card.dialects))
