"""What an earlier run changed, kept as comments at the top of the configuration.

kube-scheduler and koord-scheduler reject fields that they do not know, so a comment is the only
place that every scheduler accepts. Dragoman's own entry needs no line: the path of its address
shows it.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from adapters.cli.configure.recorded_values import recorded, restored
from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import Body, plain

MARK = "# dragoman-configure: "
_LINE = re.compile(rf"^{re.escape(MARK)}(.*)\n?", re.MULTILINE)

_SHOWN = 200
"""Characters of a damaged line that an error shows."""

Field = Annotated[tuple[str | int, ...], msgspec.Meta(min_length=1)]
"""Keys from the top; an item of a list by its index, its ``schedulerName`` or its ``name``."""

DEFAULT_PROFILE = "default-scheduler"
"""The name of a profile that has none. Source: k8s.io/api/core/v1 DefaultSchedulerName."""


class FieldAdded(msgspec.Struct, frozen=True, tag="added", tag_field="did"):
    """A field that was absent was set to a value."""

    field: Field
    value: Any


class FieldReplaced(msgspec.Struct, frozen=True, tag="replaced", tag_field="did"):
    """A field was set to a value, and had another one before."""

    field: Field
    value: Any
    before: Any


class ItemRemoved(msgspec.Struct, frozen=True, tag="removed", tag_field="did"):
    """An item was taken out of a list."""

    field: Field
    at: int
    value: Any


class ItemInserted(msgspec.Struct, frozen=True, tag="inserted", tag_field="did"):
    """An item was put at the end of a list."""

    field: Field
    value: Any


class Chosen(msgspec.Struct, frozen=True, tag="chosen", tag_field="did"):
    """A choice of the user's that no field shows."""

    option: str
    value: str


Change = FieldAdded | FieldReplaced | ItemRemoved | ItemInserted


class Record:
    """The changes of all runs, in order; each method changes a configuration and notes it."""

    def __init__(self, rows: Sequence[Change | Chosen] = ()) -> None:
        self._changes = [row for row in rows if not isinstance(row, Chosen)]
        self._chosen = {row.option: row for row in rows if isinstance(row, Chosen)}

    def render(self) -> str:
        """One comment line for a choice or a change."""
        rows = (*self._chosen.values(), *self._changes)
        return "".join(f"{MARK}{msgspec.json.encode(row).decode()}\n" for row in rows)

    def chosen(self, option: str) -> str:
        """What the user chose for an option; empty where no run noted a choice."""
        return self._chosen[option].value if option in self._chosen else ""

    def choose(self, option: str, value: str) -> None:
        """Note what the user chose for an option; empty to note no choice."""
        self._chosen.pop(option, None)
        if value:
            self._chosen[option] = Chosen(option, value)

    def set(self, body: Body, field: Field, value: Any) -> None:
        """Set a field, where it has another value; mappings above it are made."""
        parent: Any = body
        for depth, step in enumerate(field[:-1], start=1):
            below = child(parent, step)
            if below is None:
                parent[step] = below = {}
                self._changes.append(FieldAdded(field[:depth], {}))
            parent = below
        key = field[-1]
        if key not in parent:
            self._changes.append(FieldAdded(field, plain(value)))
        elif plain(parent[key]) == value:
            return
        else:
            self._changes.append(FieldReplaced(field, plain(value), recorded(parent[key])))
        parent[key] = value

    def remove(self, items: list[Any], field: Field, at: int) -> None:
        """Take an item out of the list at a field."""
        self._changes.append(ItemRemoved(field, at, recorded(items[at])))
        del items[at]

    def insert(self, items: list[Any], field: Field, value: Any) -> None:
        """Put an item at the end of the list at a field."""
        self._changes.append(ItemInserted(field, plain(value)))
        items.append(value)

    def rewind(self, body: Body, which: Callable[[Field], bool] | None = None) -> list[str]:
        """Undo some changes, so that a run with other options can choose.

        Args:
            body: changed.
            which: the fields; None for those of the choice of plugins.

        Returns:
            What could not be undone, as sentences.
        """
        chosen = which or _is_plugin_choice
        again = [row for row in self._changes if chosen(row.field)]
        self._changes = [row for row in self._changes if not chosen(row.field)]
        return [problem for row in reversed(again) for problem in _undo(body, row)]

    def undo(self, body: Body) -> list[str]:
        """Undo every change, the latest first; what could not be undone, as sentences."""
        problems = [problem for row in reversed(self._changes) for problem in _undo(body, row)]
        self._changes, self._chosen = [], {}
        return problems


def split_record(text: str, name: str) -> tuple[Record, str]:
    """The record of a configuration's text, and the text without it.

    Raises:
        InputError: a line of the record is damaged.
    """
    rows = []
    for match in _LINE.finditer(text):
        try:
            rows.append(msgspec.json.decode(match[1], type=Change | Chosen))
        except (msgspec.DecodeError, RecursionError) as error:
            line = match[0].strip()[:_SHOWN]
            remedy = "restore it, or delete it and undo that change by hand"
            raise InputError(name, f"the line {line!r} is damaged ({error}); {remedy}") from error
    return Record(rows), _LINE.sub("", text)


def child(parent: Any, step: str | int) -> Any:
    """What a step of a field leads to; None where there is no such thing."""
    if isinstance(parent, dict):
        return parent.get(step)
    if not isinstance(parent, list):
        return None
    if isinstance(step, int):
        return parent[step] if step < len(parent) else None
    return next((item for item in parent if _name(item) == step), None)


def path(field: Field) -> str:
    """A field as people write it, such as ``profiles[koord-scheduler].plugins``."""
    steps = ""
    parent = ""
    for step in field:
        in_list = isinstance(step, int) or parent in {"profiles", "pluginConfig"}
        steps += f"[{step}]" if in_list else f".{step}"
        parent = str(step)
    return steps.removeprefix(".")


def is_number_of_nodes(field: Field) -> bool:
    """Whether a field says of how many nodes a scheduler finds out whether a pod fits."""
    return field[-1] == "percentageOfNodesToScore"


def _name(item: Any) -> object:
    if not isinstance(item, dict):
        return None
    return item.get("name") or item.get("schedulerName") or DEFAULT_PROFILE


def _is_plugin_choice(field: Field) -> bool:
    return (
        field[0] in {"profiles", "tiers"}
        and field[-1] != "schedulerName"
        and not is_number_of_nodes(field)
    )


def _undo(body: Body, row: Change) -> list[str]:
    target: Any = body
    for step in row.field[:-1]:
        target = child(target, step)
    if isinstance(row, ItemRemoved | ItemInserted):
        return _undo_item(child(target, row.field[-1]), row)
    key = row.field[-1]
    if not isinstance(target, dict) or plain(target.get(key)) != row.value:
        return [f"{path(row.field)}: was changed after Dragoman set it, and stays as it is"]
    if isinstance(row, FieldReplaced):
        target[key] = restored(row.before)
    else:
        del target[key]
    return []


def _undo_item(items: Any, row: ItemRemoved | ItemInserted) -> list[str]:
    value = msgspec.json.encode(row.value).decode()
    if not isinstance(items, list):
        return [f"{path(row.field)}: is no list any more; restore {value} by hand if you need it"]
    there = [each for each in items if _name(each) == _name(row.value)]
    if isinstance(row, ItemInserted):
        for each in there:
            items.remove(each)
    elif not there:
        items.insert(row.at, restored(row.value))
    return []
