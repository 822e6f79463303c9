"""Decisions that differ from the recorded ones, as rows."""

from collections.abc import Mapping, Sequence

from adapters.cli.output.rows import Column, Row
from adapters.cli.replay.replayer import Answer, Replayed
from adapters.cli.view.listing import Listing
from adapters.wire.records.grant import GrantRecord
from adapters.wire.records.recording import ClaimDecided
from core.hardware.quantity import format_bytes

NAMED = 3
"""Nodes that a row names, at most."""

_COLUMNS = (
    Column("TIME"),
    Column("DECISION"),
    Column("NAMESPACE"),
    Column("POD"),
    Column("RECORDED"),
    Column("REPLAYED"),
)

_KEYS = ("time", "decision", "namespace", "pod", "recorded", "replayed")


def listing(found: Sequence[Replayed]) -> Listing:
    """One row for each decision that differs."""
    return Listing("ReplayList", _COLUMNS, tuple(map(_row, found)), _KEYS)


def _row(each: Replayed) -> Row:
    namespace, _, name = each.pod.partition("/")
    verb = str(type(each.decision).__struct_config__.tag)
    before, after = _texts(each.before, each.after)
    cells = (each.decision.time, verb, namespace, name, before, after)
    kind = "resourceclaim" if isinstance(each.decision, ClaimDecided) else "pod"
    return Row(f"{kind}/{name}", cells, dict(zip(_KEYS, cells, strict=True)))


def _texts(before: Answer, after: Answer) -> tuple[str, str]:
    """Both answers in a few words; of long ones, what only one of them has."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return _best(before), _best(after)
    if _is_names(before) and _is_names(after):
        return _only(before, after), _only(after, before)
    return _text(before), _text(after)


def _best(ranks: Mapping[str, int]) -> str:
    most = max(ranks.values(), default=0)
    return f"best: {_named([name for name, rank in ranks.items() if rank == most])}"


def _is_names(answer: Answer) -> bool:
    return isinstance(answer, tuple) and all(isinstance(each, str) for each in answer)


def _only(names: Answer, others: Answer) -> str:
    mine, more = _strings(names), set(_strings(others))
    only = [name for name in mine if name not in more]
    return f"{len(mine)} nodes fit" + (f", {_named(only)} here only" if only else "")


def _strings(answer: Answer) -> list[str]:
    return [str(each) for each in answer] if isinstance(answer, tuple) else []


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _text(answer: Answer) -> str:
    match answer:
        case "":
            return "fits"
        case str():
            return answer
        case tuple():
            return "; ".join(map(_item, answer)) or "nothing"
        case _:
            return str(answer)


def _item(item: object) -> str:
    match item:
        case GrantRecord():
            part = f" {item.slice.profile}@{item.slice.start}" if item.slice else ""
            return f"{item.container}: {item.card}{part} {format_bytes(item.memory)}"
        case (str() as text, int() as nodes):
            return f"{nodes} nodes: {text}"
        case _:
            return str(item)
