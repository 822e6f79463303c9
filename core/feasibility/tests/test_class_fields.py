"""Every field that ``fit`` or the ranking may read makes another class of node.

A field that the class forgets would give one node's result to a node that differs: a wrong answer
that no other test notices. So a new field fails here until it is listed, with a value that makes
another class or with the reason why it makes none.
"""

from collections.abc import Mapping
from dataclasses import fields, replace

import pytest

from core.feasibility.columns import NodeClassIds
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import Slice
from core.hardware.node import Node, Partition
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardShare, CardUsage
from core.requests.request import SharingTerms, TaskClass
from core.tests.builders import A30ISH, DIALECT, a_card
from core.tests.strategies import TERMS

SLICE = Slice("1g", 0, 1, GIB, 25, "quarters", 0)

SHARE = CardShare(
    uid="u",
    memory=GIB,
    compute=10,
    slots=1,
    exclusive=False,
    blocked=False,
    by_kubelet=False,
    terms=SharingTerms(),
    slices=(),
    unreadable_slices=False,
)
CARD = a_card("c0")
NODE = Node("n", (CARD, a_card("c1", 1)))

Thing = CardShare | SharingTerms | Card | Node

CHANGES: dict[type, dict[str, object]] = {
    CardShare: {
        "memory": 2 * GIB,
        "compute": 20,
        "slots": 2,
        "exclusive": True,
        "blocked": True,
        "by_kubelet": True,
        "terms": SharingTerms(TaskClass.ONLINE),
        "slices": (SLICE,),
        "unreadable_slices": True,
    },
    SharingTerms: {name: values[-1] for name, values in TERMS.items() if name != "member_of"},
    Card: {
        "index": 7,
        "vendor": "metax",
        "model": "H100",
        "memory": 8 * GIB,
        "slots": 9,
        "healthy": False,
        "mode": Mode.WHOLE,
        "numa": 1,
        "links": (Scope(Level.LINK, "a"),),
        "dialects": frozenset({DIALECT, "other"}),
        "names": ("A100-SXM4",),
        "geometry": A30ISH,
        "compute": 50,
        "problem": "Xid 79",
    },
    Node: {
        "cards": NODE.cards[:1],
        "isolation": "core",
        "partitions": (Partition((0, 1)),),
        "partitions_bind": True,
        "losses": ((1, 5),),
        "gains": ((1, 5),),
        "scores": ((0, 5), (5, 0)),
    },
}
"""By field, a value that makes another class."""

WITHOUT_MEANING: dict[type, dict[str, tuple[object, str]]] = {
    CardShare: {
        "uid": ("v", "nodes of a pod with cards there are never taken as a class"),
    },
    SharingTerms: {
        "member_of": ("gang", "nodes with members of a request's group are never taken as a class"),
    },
    Card: {
        "uuid": ("c9", "nodes are never taken as a class where a request names uuids"),
        "node": ("m", "only the grants name the node"),
    },
    Node: {"name": ("m", "only the placement names the node")},
}
"""By field, another value that makes no other class, and the reason."""


def ledger_with(thing: Thing) -> NodeLedger:
    """A node with two cards and one share on the first one, with this in its place."""
    share = thing if isinstance(thing, CardShare) else SHARE
    if isinstance(thing, SharingTerms):
        share = replace(SHARE, terms=thing)
    node = thing if isinstance(thing, Node) else NODE
    if isinstance(thing, Card):
        node = replace(NODE, cards=(thing, *NODE.cards[1:]))
    usages = (CardUsage().plus(share), *(CardUsage() for _ in node.cards[1:]))
    return replace(NodeLedger.of(node), usages=usages)


BASES: Mapping[type, Thing] = {
    CardShare: SHARE,
    SharingTerms: SHARE.terms,
    Card: CARD,
    Node: NODE,
}


def with_value(kind: type, name: str, value: object) -> Thing:
    return replace(BASES[kind], **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", BASES, ids=lambda kind: kind.__name__)
def test_every_field_is_listed(kind: type) -> None:
    names = [field.name for field in fields(kind)]

    assert sorted(names) == sorted([*CHANGES[kind], *WITHOUT_MEANING[kind]])


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, values in CHANGES.items() for name in values],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_field_that_a_decision_reads_makes_another_class(kind: type, name: str) -> None:
    ids = NodeClassIds()
    changed = with_value(kind, name, CHANGES[kind][name])

    assert ids.of(ledger_with(changed)) != ids.of(ledger_with(BASES[kind]))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, values in WITHOUT_MEANING.items() for name in values],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_name_makes_no_other_class(kind: type, name: str) -> None:
    ids = NodeClassIds()
    changed = with_value(kind, name, WITHOUT_MEANING[kind][name][0])

    assert ids.of(ledger_with(changed)) == ids.of(ledger_with(BASES[kind]))


def test_the_sums_of_a_usage_are_those_of_its_shares() -> None:
    sums = {field.name for field in fields(CardUsage)} - {"shares"}

    assert sums == {"memory", "compute", "slots"}
    for name in sums:
        assert getattr(CardUsage().plus(SHARE), name) == getattr(SHARE, name)
