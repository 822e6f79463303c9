"""Links between a node's cards, from the scores that HAMi's device plugin writes of each pair.

A score is the sum over the links of a pair: 10 to 60 for the way over PCIe (50: one switch, 60:
one board), and 100 for each NVLink. Source: nvidia/calculate_score.go, calculateGPUPairScore.
"""

from collections.abc import Callable, Mapping

import msgspec

from adapters.dialects.hami import keys
from adapters.wire.decode.decoder import Decoder, Int64, UnreadableError
from core.hardware.card import Card, Level, Scope

_NVLINK = 100
_ONE_SWITCH = 50

PairScores = Mapping[str, Mapping[str, int]]
"""Scores of pairs of cards, by the uuid of one and of the other."""


class _Scores(msgspec.Struct, frozen=True):
    uuid: str = ""
    score: dict[str, Int64] | None = None


_decoder: Decoder[list[_Scores] | None] = Decoder(list[_Scores] | None)


def read_pair_scores(text: str | None) -> tuple[PairScores, list[str]]:
    """Read the scores of a node, and what is wrong with them as a sentence."""
    if text is None:
        return {}, []
    try:
        found = _decoder.decode(text) or []
    except UnreadableError as error:
        return {}, [f"{keys.PAIR_SCORES} is not a list of scores: {error}"]
    return {each.uuid: each.score or {} for each in found}, []


def links(card: Card, scores: PairScores) -> tuple[Scope, ...]:
    """The scopes of a card.

    Cards with NVLinks between them, also over others, are one scope; so are cards at one switch.
    HAMi compares NUMA nodes as numbers, also where 0 means unknown.
    """
    switched = _component(card.uuid, scores, lambda score: score % _NVLINK >= _ONE_SWITCH)
    linked = _component(card.uuid, scores, lambda score: score >= _NVLINK)
    return (
        Scope(Level.NUMA, str(card.numa or 0)),
        *((Scope(Level.PCIE, switched),) if switched else ()),
        *((Scope(Level.LINK, linked),) if linked else ()),
    )


def _component(uuid: str, scores: PairScores, joined: Callable[[int], bool]) -> str | None:
    """The smallest uuid of the cards that are joined with a card; None where none is."""
    found, left = {uuid}, [uuid]
    while left:
        near = {other for other, score in scores.get(left.pop(), {}).items() if joined(score)}
        left += near - found
        found |= near
    return min(found) if len(found) > 1 else None
