"""Translates the pods of a text to a dialect, finds what is lost, and prints it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from adapters.cli.input.source import InputError, Source
from adapters.cli.input.workload import PodPlace, pods_in
from adapters.cli.output.rows import Row, as_json, columns, table
from adapters.cli.translate import manifest
from adapters.dialects import registry, request_writer
from adapters.dialects.device_plugins import plugin_share
from adapters.dialects.dialect import Defaults, Dialect, DialectError
from adapters.dialects.info import DialectInfo
from adapters.dialects.matching import dialect_of
from adapters.dialects.request_writer import losses
from adapters.wire.kube import Pod
from adapters.wire.visible import visible
from core.requests.request import Request

_HAS_CONTENT = re.compile(r"^(?!---[ \t]*(?:#.*)?$)[ \t]*[^\s#]", re.MULTILINE)
"""A line that is neither blank, a comment nor a separator."""


@dataclass(frozen=True, slots=True)
class TranslatedPod:
    """A pod or a template that was translated.

    Attributes:
        document: kind and name of its document, such as ``Deployment/web``.
        path: in the document; empty for the document itself.
        source: the dialect that it had.
        losses: what the translation does not keep.
        foreign_scheduler: its ``schedulerName``, which stays, where this is neither the default
            nor the one of the target's ecosystem.
    """

    document: str
    path: str
    source: str
    losses: tuple[request_writer.Loss, ...]
    foreign_scheduler: str | None = None


@dataclass(frozen=True, slots=True)
class WordLeft:
    """A word of another dialect that stays in a document.

    Attributes:
        document: kind and name of its document.
        path: in the document.
        word: a resource or an annotation.
        problem: why it stays.
    """

    document: str
    path: str
    word: str
    problem: str


@dataclass(frozen=True, slots=True)
class Translation:
    """What came of a text.

    Attributes:
        text: the translated text.
        target: the dialect.
        pods: the translated ones, in order; pods in the target's words and pods that request no
            share are not among them.
        left: what stays in the words of another dialect.
        invalid: why pods stay as they are, with their places.
    """

    text: str
    target: str
    pods: tuple[TranslatedPod, ...]
    left: tuple[WordLeft, ...]
    invalid: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether nothing is lost, and all is translated."""
        return not (self.left or self.invalid or any(pod.losses for pod in self.pods))


def translate(source: Source, target: str, cards: request_writer.CardFacts) -> Translation:
    """Translate every pod and template of a text, YAML or JSON, to one of ``targets``.

    Raises:
        InputError: the text has no document or cannot be parsed; or no pod is translated and one is
            invalid, cannot be written in the target's words, or demands cards that the target does
            not describe.
    """
    if not _HAS_CONTENT.search(source.text):
        raise InputError(source.name, "contains no manifest")
    translator = _Translator(_info(target), cards)
    text = manifest.changed(source, translator.rewrite)
    pods, invalid = tuple(translator.pods), translator.invalid
    if invalid and not pods:
        raise invalid[0]
    return Translation(text, target, pods, tuple(translator.left), tuple(map(str, invalid)))


@dataclass(frozen=True, slots=True)
class _Found:
    """A pod that was translated, as it was before.

    Attributes:
        path: in the document.
        place: for errors.
        pod: with its request.
        dialect: of the pod.
        request: what it requests.
        gone: annotations and labels that it lost.
    """

    path: str
    place: str
    pod: Pod
    dialect: Dialect
    request: Request
    gone: frozenset[str]


@dataclass(slots=True)
class _Translator:
    target: DialectInfo
    cards: request_writer.CardFacts
    pods: list[TranslatedPod] = field(default_factory=list[TranslatedPod])
    left: list[WordLeft] = field(default_factory=list[WordLeft])
    invalid: list[InputError] = field(default_factory=list[InputError])
    dialects: Sequence[Dialect] = field(default_factory=lambda: registry.dialects({}, Defaults()))

    @property
    def foreign(self) -> frozenset[str]:
        """Resources of shares and annotations of other dialects, which the target does not have."""
        words: set[str] = set()
        for info in registry.DIALECTS:
            writer = info.load_writer()
            texts = frozenset[str]() if writer is None else writer.annotations
            words |= {name for name in info.pod_resources if plugin_share(name) is None} | texts
        own = _writer(self.target)
        return frozenset(words) - self.target.pod_resources - own.annotations

    def rewrite(self, content: Any, place: str) -> manifest.Check | None:
        """Translate the pods of a document; None where it has none to translate."""
        found = list[_Found]()
        why = dict[str, str]()
        for at in _pods(content):
            where = f"{place}: {f'{_document(content)} {at.path}'.rstrip()}"
            try:
                each = self._translated(at, where)
            except InputError as error:
                if at.has_metadata:
                    self.invalid.append(error)
                why[at.path] = "" if at.has_metadata else error.problem
            else:
                if each is not None:
                    found.append(each)
        if not found:
            self._note_left(content, why)
            return None
        known = (self.target.scheduler, DEFAULT_SCHEDULER)
        target = next(each for each in self.dialects if each.name == self.target.name)

        def check(content: Any) -> None:
            """Read the translated pods as they were written."""
            name = _document(content)
            written = {at.path: at.pod for at in _pods(content)}
            for each in found:
                try:
                    pod = manifest.as_pod(written[each.path], each.place)
                    dialect_of(pod, self.dialects)  # also has no words of its former dialect
                    after = registry.with_vendor(target.read_request(pod))
                    lost = (
                        *losses(each.request, after, self.cards),
                        *request_writer.unread_amounts(each.pod, _writer(_info(each.dialect.name))),
                        *request_writer.removed(
                            each.pod, each.gone, each.dialect, each.request, after
                        ),
                    )
                except DialectError as error:
                    problem = f"cannot be written for {target.name}: {error}"
                    raise InputError(each.place, problem) from error
                scheduler = each.pod.spec.scheduler_name or None
                kept = None if scheduler in known else scheduler
                source = each.request.dialect
                self.pods.append(TranslatedPod(name, each.path, source, lost, kept))
            self._note_left(content, why)

        return check

    def _note_left(self, content: Any, why: Mapping[str, str]) -> None:
        """Note the words of other dialects that a document has.

        ``why`` by path of a pod; empty for one that is invalid.
        """
        if isinstance(content, dict) and content.get("kind") == "Node":
            return
        name = _document(content)
        for path, word in manifest.words_left(content, self.foreign):
            pod = next((each for each in why if path.startswith(each)), None)
            problem = "is not translated" if pod is None else f"is not translated: {why[pod]}"
            if pod is None or why[pod]:  # others are invalid
                self.left.append(WordLeft(name, path, word, problem))

    def _translated(self, at: PodPlace, place: str) -> _Found | None:
        """Write the request of a pod in the target's words; None for one that stays as it is."""
        content = at.pod
        pod, target = manifest.as_pod(content, place), self.target
        writer = _writer(target)
        try:
            dialect = dialect_of(pod, self.dialects)
            if dialect is None or dialect.name == target.name:
                return None
            request = registry.with_vendor(dialect.read_request(pod))
            if target.vendor and request.vendor and target.vendor != request.vendor:
                problem = f"{target.name} has those of {target.vendor} only"
                raise InputError(place, f"requests cards of {request.vendor}; {problem}")
            written = writer.write(request, self.cards.memory)
        except DialectError as error:
            raise InputError(place, str(error)) from error
        former = _info(dialect.name)
        source = _writer(former)
        gone = former.texts(source) | target.texts(writer)
        names = (container.name for container in request.containers)
        if written.annotations and not at.has_metadata:
            keys = ", ".join(sorted(written.annotations))
            raise InputError(place, f"the annotations of its pods are not known, and need {keys}")
        resources = dict(zip(names, written.containers, strict=True))
        manifest.rewrite_resources(content, source.resources | writer.resources, resources)
        if at.has_metadata:
            manifest.rewrite_texts(content, gone, written.annotations)
        lost = gone - written.annotations.keys()
        return _Found(at.path, place, pod, dialect, request, lost)


def _pods(content: Any) -> list[PodPlace]:
    """Return the pods of a document, of each item of a list."""
    items = content.get("items") if isinstance(content, dict) else None
    if not isinstance(items, list) or not str(content.get("kind")).endswith("List"):
        return [*pods_in(content)]
    return [found for at, item in enumerate(items) for found in pods_in(item, f"items[{at}]")]


def _document(content: Any) -> str:
    if not isinstance(content, dict):
        return "document"
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return "/".join(str(each) for each in (content.get("kind"), name) if each) or "document"


DEFAULT_SCHEDULER = "default-scheduler"
"""A pod that names none has this one: k8s.io/api/core/v1 types.go, DefaultSchedulerName."""


def targets() -> list[str]:
    """Return the dialects that requests can be written in."""
    return [info.name for info in registry.DIALECTS if info.writer is not None]


def _info(name: str) -> DialectInfo:
    return next(info for info in registry.DIALECTS if info.name == name)


def _writer(info: DialectInfo) -> request_writer.RequestWriter:
    """Return what writes a request in a dialect.

    Raises:
        InputError: nothing does.
    """
    writer = info.load_writer()
    if writer is None:
        raise InputError(info.name, f"cannot be translated; must be one of {', '.join(targets())}")
    return writer


def as_table(translation: Translation) -> str:
    """Return one line for each loss, a line with the sum, and one for each foreign scheduler."""
    rows = [
        Row("", (pod.document, pod.path, pod.source, loss.field, loss.before, loss.after), {})
        for pod in translation.pods
        for loss in pod.losses
    ]
    headers = columns("DOCUMENT", "POD", "FROM", "LOSS", "BEFORE", "AFTER")
    lossy = sum(bool(pod.losses) for pod in translation.pods)
    total = len(translation.pods)
    notes: list[str] = []
    for pod in translation.pods:
        if pod.foreign_scheduler is not None:
            name = " ".join(filter(None, (pod.document, pod.path)))
            note = (
                f"note: {name}: schedulerName stays {pod.foreign_scheduler}; no scheduler of"
                f" {translation.target} has this name, so it must be one that asks Dragoman"
            )
            notes.append(f"{visible(note)}\n")
    for left in translation.left:
        note = f"{left.document} {left.path}: {left.word} {left.problem}"
        notes.append(f"warning: {visible(note)}\n")
    notes += (f"warning: {visible(each)}; stays as it is\n" for each in translation.invalid)
    return (
        f"{table(headers, rows) if rows else ''}"
        f"{total} {'pod' if total == 1 else 'pods'} translated to {translation.target}, "
        f"{lossy} with a loss\n"
        f"{''.join(notes)}"
    )


def as_report(translation: Translation) -> str:
    """Return the losses of each pod, and the translated text."""
    return as_json(
        {
            "apiVersion": "dragoman.dev/v1alpha1",
            "kind": "Translation",
            "target": translation.target,
            "pods": [
                {
                    "document": pod.document,
                    "path": pod.path,
                    "dialect": pod.source,
                    "foreignScheduler": pod.foreign_scheduler,
                    "losses": msgspec.to_builtins(pod.losses),
                }
                for pod in translation.pods
            ],
            "left": msgspec.to_builtins(translation.left),
            "invalid": list(translation.invalid),
            "text": translation.text,
        }
    )
