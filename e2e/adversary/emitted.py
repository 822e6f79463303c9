"""What a pod was given, from the record with which it was bound."""

from collections.abc import Sequence

from e2e.adversary.cards import Card
from e2e.adversary.rules import Held, slice_named
from e2e.adversary.wanted import Part, Wanted, wanted
from e2e.harness.cluster.api import Object
from e2e.harness.names import ALLOCATED
from e2e.harness.oracles.from_annotations import HAMI, METAX, VOLCANO, Share, shares_of_pod

RECORDS = {"volcano": VOLCANO, "koordinator": ALLOCATED, "metax": METAX, "hami": HAMI}
"""By dialect, the annotation that the node's components of the ecosystem read."""


def title(pod: Object) -> str:
    """A pod's name and the begin of its uid."""
    metadata = pod["metadata"]
    return f"{metadata['name']}/{metadata['uid'][:8]}"


def given(pod: Object, cards: Sequence[Card]) -> tuple[list[Held], list[str]]:
    """What a bound pod holds, and where its record differs from its request, as sentences.

    Amounts are those of the request; of a slice, those of the card's geometry.

    Args:
        pod: as the API server has it.
        cards: of its node; by their minors where Koordinator describes them.
    """
    asked = wanted(pod)
    if asked is None:
        return [], []
    shares = _shares(pod, asked, cards)
    parts = _paired(asked, shares)
    if parts is None:
        return [], [f"{title(pod)}: record {shares} has not the cards that {asked} requests"]
    by_uuid = {card.uuid: card for card in cards}
    held, texts = [], []
    for part, share in zip(parts, shares, strict=True):
        uuid, _, name = share.card.rstrip("]").partition("[")
        card = by_uuid.get(uuid)
        if card is None or asked.dialect not in card.dialects or (asked.mig and not card.mig):
            texts.append(f"{title(pod)}: {uuid} is no card for {asked}")
            continue
        memory, compute = part.memory_on(card.memory), part.compute
        slot = slice_named(name) if name else None
        if (share.memory, share.compute) != (memory, compute):
            texts.append(f"{title(pod)}: {share} is not {memory} MiB and {compute} percent")
        if slot is not None and slot.memory < memory:
            texts.append(f"{title(pod)}: {slot} has fewer than {memory} MiB")
        held.append(
            Held(
                title(pod),
                uuid,
                memory if slot is None else slot.memory,
                compute,
                part.exclusive,
                asked.terms,
                slot,
                part.turn,
            )
        )
    return held, texts


def _shares(pod: Object, asked: Wanted, cards: Sequence[Card]) -> list[Share]:
    """The shares of the pod's own dialect; of init containers first, as the record has them."""
    key = RECORDS[asked.dialect]
    text = (pod["metadata"].get("annotations") or {}).get(key)
    if text is None:
        return []
    minors = [card.uuid for card in cards if card.minor is not None]
    texts = text.split(";") if asked.in_turn else [text]
    return [
        share
        for each in texts
        for share in shares_of_pod({"metadata": {"annotations": {key: each}}}, minors)
    ]


def _paired(asked: Wanted, shares: Sequence[Share]) -> list[Part] | None:
    """The part of the request of each share; None where there are more, fewer or one twice."""
    parts = [part for part in asked.parts for _ in range(part.count)]
    if len(parts) != len(shares):
        return None
    if asked.in_turn:
        return parts
    # Records are read in any order: the largest share belongs to the largest part.
    order = sorted(range(len(parts)), key=lambda at: (parts[at].memory or 0, parts[at].compute))
    by_size = sorted(range(len(shares)), key=lambda at: (shares[at].memory, shares[at].compute))
    found = [parts[0]] * len(parts)
    for at, place in zip(by_size, order, strict=True):
        found[at] = parts[place]
    return found
