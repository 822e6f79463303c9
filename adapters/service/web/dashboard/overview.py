"""The first screen: all cards at a glance, what is granted to which namespace, and what waits."""

from asyncio import sleep
from collections import Counter
from collections.abc import Mapping, Sequence

from adapters.service.web.dashboard.rows import FREE_FROM, FleetIndex, NodeRow, choice
from core.hardware.quantity import MIB

View = dict[str, object]

LISTED = 8
"""Problems, reasons and namespaces that are listed, the most important first."""

OWNER = {"namespace": 0, "dialect": 1}
"""Colors of the map that stand for names, by their place in ``NodeRow.owners``."""

COLORS = ("granted", "used", "health", *OWNER)
COMPARED = 1000
"""Nodes that are added up before the event loop gets its turn."""


async def overview(index: FleetIndex, waiting: Sequence[View], query: Mapping[str, str]) -> View:
    """Return totals, the nodes by model, namespaces, free shares, problems and what waits.

    Args:
        index: the nodes.
        waiting: all pods without a node, as ``views.waiting`` returns them, oldest first.
        query: ``color`` is one of ``COLORS``; of names, the answer has a digit a card, their place
            in ``names``, or a dash.

    Raises:
        QueryError: ``color`` is another word.
    """
    of = OWNER.get(choice(query, "color", COLORS))
    owned: Counter[str] = Counter()
    rows = await index.rows()
    groups: dict[tuple[str, bool], list[NodeRow]] = {}
    granted: Counter[str] = Counter()
    free: Counter[int] = Counter()
    largest = 0
    for at, row in enumerate(rows):
        if at % COMPARED == 0:
            await sleep(0)
        groups.setdefault((", ".join(row.models or row.resources), bool(row.devices)), []).append(
            row
        )
        granted.update(row.granted_by)
        free.update(row.free)
        owned.update(owner[of] for owner in row.owners if of is not None and owner[of])
        largest = max(largest, row.largest)
    troubled = [row for row in rows if row.has_problem]
    names = {name: str(at) for at, (name, _) in enumerate(owned.most_common(LISTED))}
    return {
        "names": [*names],
        "owners": {
            row.name: "".join(names.get(owner[of], "-") for owner in row.owners)
            for row in rows
            if of is not None
        },
        "groups": [
            _group(*key, groups[key]) for key in sorted(groups, key=lambda key: -len(groups[key]))
        ],
        "idle": sum(row.cells.count(".") for row in rows if row.ledger is not None),
        "largestMiB": largest // MIB,
        "largestNodes": sum(row.largest == largest for row in rows) if largest else 0,
        "free": [
            {"fromMiB": least // MIB, "cards": free[number]}
            for number, least in enumerate(FREE_FROM)
        ],
        "namespaces": _namespaces(granted, waiting),
        "problems": [
            {
                "node": row.name,
                "text": row.problems[0] if row.problems else "",
                "cards": _named(row),
            }
            for row in troubled[:LISTED]
        ],
        "waiting": _reasons(waiting),
    }


def _group(model: str, served: bool, rows: Sequence[NodeRow]) -> View:  # noqa: FBT001
    """Return the nodes of one model, those with problems first."""
    return {
        "model": model,
        "served": served,
        "cards": sum(row.count for row in rows),
        "memoryMiB": sum(row.memory for row in rows) // MIB,
        "grantedMiB": sum(row.granted for row in rows) // MIB,
        "inUse": sum(row.in_use for row in rows),
        "nodes": [
            (row.name, row.cells, int(row.has_problem))
            for row in sorted(rows, key=lambda row: row.key("problems"))
        ],
    }


def _named(row: NodeRow) -> list[View]:
    """Return the cards of a node whose problems name them by uuid."""
    cards = () if row.ledger is None else row.ledger.node.cards
    return [{"uuid": card.uuid, "index": card.index} for card in cards]


def _namespaces(granted: Counter[str], waiting: Sequence[View]) -> list[View]:
    """Return what the namespaces have and how many of their pods wait, the largest first."""
    waits = Counter(str(each["pod"]).partition("/")[0] for each in waiting)
    names = sorted({*granted, *waits}, key=lambda name: (-granted[name], -waits[name], name))
    return [
        {"name": name, "grantedMiB": granted[name] // MIB, "waiting": waits[name]}
        for name in names[:LISTED]
    ]


def _reasons(waiting: Sequence[View]) -> View:
    """Return how many pods wait, since when, and for which causes, the most frequent first."""
    by_cause: dict[str, list[View]] = {}
    for each in waiting:
        by_cause.setdefault(str(each["cause"]), []).append(each)
    most = sorted(by_cause.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "pods": len(waiting),
        "oldest": _oldest(waiting),
        "causes": [
            {
                "cause": cause,
                "pods": len(pods),
                "oldest": _oldest(pods),
                "example": pods[0]["pod"],
            }
            for cause, pods in most[:LISTED]
        ],
        "others": sum(len(pods) for _, pods in most[LISTED:]),
    }


def _oldest(pods: Sequence[View]) -> str | None:
    """Return since when the first of some pods waits; None where it is not known."""
    return min((str(each["since"]) for each in pods if each["since"]), default=None)
