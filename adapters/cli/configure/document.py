"""A scheduler configuration inside of a text: found, parsed, changed, and written back.

The text is the configuration itself, a ConfigMap that has it under a key, or a stream of documents
one of which is either. The other documents of the stream stay as they are, byte by byte.

What a run changed is kept as comments at the top of the configuration, for ``--undo`` and for runs
with other options: kube-scheduler and koord-scheduler reject fields that they do not know, so a
comment is the only place that every scheduler accepts. Dragoman's own entry needs no line: the path
of its address shows it.

Schedulers read YAML 1.1, where ``on`` without quotes is true; the library that keeps comments reads
1.2, where it is a word. A value means the same to the scheduler before and after.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import msgspec
import yaml
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString, ScalarString

from adapters.cli.configure.options import Asked, ConfigureOptions
from adapters.cli.input.source import InputError, InputLocation, Source
from adapters.cli.input.yaml_text import Body, Layout, dump, load, plain, split

MIRRORS = (
    "native mode: {plugin} sees the cards of pods of other dialects where the service writes"
    " mirrored records (its setting mirrors); it meets any other holder only when the"
    " webhook corrects or rejects a Binding"
)
"""What a user must know of native mode."""

_ASK = "ask"

MARK = "# dragoman-configure: "
_LINE = re.compile(rf"^{re.escape(MARK)}(.*)\n?", re.MULTILINE)

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
        """Return what the user chose for an option; empty where no run noted a choice."""
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
        """Undo the changes of some fields, so that a run with other options can choose.

        None means those of the choice of plugins. What could not be undone, as sentences.
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
    """Return the record of a configuration's text, and the text without it.

    Raises:
        InputError: a line of the record is damaged.
    """
    rows = []
    for match in _LINE.finditer(text):
        try:
            rows.append(msgspec.json.decode(match[1], type=Change | Chosen))
        except (msgspec.DecodeError, RecursionError) as error:
            line = match[0].strip()[:200]
            remedy = "restore it, or delete it and undo that change by hand"
            raise InputError(name, f"the line {line!r} is damaged ({error}); {remedy}") from error
    return Record(rows), _LINE.sub("", text)


def child(parent: Any, step: str | int) -> Any:
    """Return what a step of a field leads to; None where there is no such thing."""
    if isinstance(parent, dict):
        return parent.get(step)
    if not isinstance(parent, list):
        return None
    if isinstance(step, int):
        return parent[step] if step < len(parent) else None
    return next((item for item in parent if _name(item) == step), None)


def path(field: Field) -> str:
    """Return a field as people write it, such as ``profiles[koord-scheduler].plugins``."""
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
    """Undo one change; what could not be undone, as sentences."""
    target: Any = body
    for step in row.field[:-1]:
        target = child(target, step)
    key = row.field[-1]
    if isinstance(row, ItemRemoved | ItemInserted):
        items = child(target, key)
        if not isinstance(items, list):
            value = msgspec.json.encode(row.value).decode()
            problem = f"is no list any more; restore {value} by hand if you need it"
            return [f"{path(row.field)}: {problem}"]
        there = [each for each in items if _name(each) == _name(row.value)]
        if isinstance(row, ItemInserted):
            for each in there:
                items.remove(each)
        elif not there:
            items.insert(row.at, restored(row.value))
        return []
    if not isinstance(target, dict) or plain(target.get(key)) != row.value:
        return [f"{path(row.field)}: was changed after Dragoman set it, and stays as it is"]
    if isinstance(row, FieldReplaced):
        target[key] = restored(row.before)
    else:
        del target[key]
    return []


def recorded(content: Any) -> Any:
    """Return content of the library that keeps comments in JSON's types, as YAML 1.1 reads it."""
    return plain(_each_word(content, _word_of_1_1, str))


def restored(content: Any) -> Any:
    """Return content with quotes around each word that YAML 1.1 reads as something else."""
    return _each_word(content, _quoted_if_needed, _quoted_if_needed)


def _each_word(content: Any, word: Callable[[str], Any], key: Callable[[str], str]) -> Any:
    if isinstance(content, dict):
        return {key(name): _each_word(each, word, key) for name, each in content.items()}
    if isinstance(content, list):
        return [_each_word(each, word, key) for each in content]
    return word(content) if isinstance(content, str) else content


def _word_of_1_1(word: str) -> str | bool:
    read = word if isinstance(word, ScalarString) else _read(word)
    return read if isinstance(read, bool) else word


def _quoted_if_needed(word: str) -> str:
    return word if _read(word) == word else DoubleQuotedScalarString(word)


def _read(word: str) -> Any:
    """Return what a word without quotes is in a list; None where it cannot be written so.

    ``y`` and ``n`` are booleans for the schedulers. Source: gopkg.in/yaml.v2 2.4.0 resolve.go.
    """
    if word in {"y", "Y", "n", "N"}:
        return word in {"y", "Y"}
    try:
        (read,) = yaml.safe_load(f"[{word}]")
    except (yaml.YAMLError, ValueError):
        return None
    return read


@dataclass(frozen=True, slots=True)
class Kind:
    """What one scheduler takes for its configuration.

    Attributes:
        name: for people, such as ``KubeSchedulerConfiguration``.
        mark: a word that the text of every configuration of this kind has.
        matches: whether a mapping is one.
        remedy: for a text that has none.
    """

    name: str
    mark: str
    matches: Callable[[Mapping[str, Any]], bool]
    remedy: str


@dataclass(frozen=True, slots=True)
class Holder:
    """The ConfigMap around a configuration, and the key that has it."""

    content: Body
    layout: Layout
    key: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """One scheduler configuration, and the text around it.

    Attributes:
        name: of the file and, in a ConfigMap, the key.
        body: the configuration; callers change it.
        record: what earlier runs changed; callers add to it.
        layout: of the body.
        before: the text in front of its document.
        after: the text behind its document.
        holder: the ConfigMap around it; None for a bare configuration.
    """

    name: str
    body: Body
    record: Record
    layout: Layout
    before: str = ""
    after: str = ""
    holder: Holder | None = None

    @property
    def is_alone(self) -> bool:
        """Whether the user chose native mode without asking Dragoman about any pod."""
        return self.record.chosen(_ASK) == Asked.NONE.value

    def render(self) -> str:
        """Return the whole text, with the configuration as it is now."""
        text = self.record.render() + dump(self.body, self.layout)
        if self.holder is not None:
            self.holder.content["data"][self.holder.key] = LiteralScalarString(text)
            text = dump(self.holder.content, self.holder.layout)
        return f"{self.before}{text}{self.after}"


def read(source: Source, kind: Kind, key: str | None = None) -> Configuration:
    """Return the one configuration of a kind in a text.

    The key is that of ``data``, for a ConfigMap with several of them; None for its only one.

    Raises:
        InputError: the text has none or more than one, or is not YAML.
    """
    found, others = [], []
    for before, text, after in split(source.text):
        if text.strip():
            configurations, what = _search(source.name, text, before.count("\n"), kind, key)
            found += [replace(each, before=before, after=after) for each in configurations]
            others.append(what)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.name for each in found)
        remedy = "give a file with one of them, or name the ConfigMap's key with --key"
        raise InputError(source.name, f"has {len(found)} of {kind.name} ({names}); {remedy}")
    what = ", ".join(sorted(set(others))) or "nothing"
    raise InputError(source.name, f"has no {kind.name}, but {what}; {kind.remedy}")


def _search(
    name: str, text: str, line: int, kind: Kind, key: str | None
) -> tuple[list[Configuration], str]:
    """Return the configurations of one document, and what the document is, for people.

    A document without the mark is not parsed by the library that keeps comments: an installer's
    manifest is a megabyte, and that library needs a minute for it.
    """
    if kind.mark not in text:
        return [], _what(text)
    record, bare = split_record(text, name)
    content, layout = load(bare, lambda row: InputLocation(name, line + row))
    if not isinstance(content, Body):
        return [], "no mapping"
    if kind.matches(content):
        return [Configuration(name, content, record, layout)], kind.name
    data = content.get("data")
    if content.get("kind") != "ConfigMap" or not isinstance(data, dict):
        return [], _what(text)
    found = []
    for each, value in data.items():
        if isinstance(value, str) and kind.mark in value and key in {None, each}:
            place = f"{name}: data[{each}]"
            record, bare = split_record(value, place)
            body, inside = load(bare, partial("{}, line {}".format, place))
            if isinstance(body, Body) and kind.matches(body):
                holder = Holder(content, layout, each)
                found.append(Configuration(place, body, record, inside, holder=holder))
    return found, _what(text)


def _what(text: str) -> str:
    """Return the kind of a document, as its first level says it."""
    found = re.search(
        r'^"?kind"?:[ \t]*"?([A-Za-z]+)|"kind":[ \t]*"([A-Za-z]+)"', text, re.MULTILINE
    )
    return f"a {found[1] or found[2]}" if found else "a document without a kind"


def choose_asked(
    found: Configuration, options: ConfigureOptions, *, native: bool, present: Asked = Asked.OTHERS
) -> Asked:
    """About which pods the scheduler asks; noted in the record where no entry shows it.

    What the entries of the file show is ``present``.

    Raises:
        InputError: an option excludes another one.
    """
    if not native:
        if options.ask not in (None, Asked.ALL):
            raise InputError(
                "--ask",
                f"{options.ask.value!r} is for --mode native: as extender Dragoman serves all"
                " dialects; leave it out",
            )
        found.record.choose(_ASK, "")
        return Asked.ALL
    asked = options.ask or (Asked.NONE if found.is_alone else present)
    if asked is Asked.NONE:
        for flag, is_given in (
            ("--url", options.url is not None),
            ("--ca-file, --ca-data", options.has_ca),
            ("--preemption", options.preemption is not None),
            ("--plain-pods", options.plain_pods is not None),
        ):
            if is_given:
                problem = "is for an extender, and there is none with --ask none; leave it out"
                raise InputError(flag, f"{problem}, or give --ask others")
    found.record.choose(_ASK, asked.value if asked is Asked.NONE else "")
    return asked
