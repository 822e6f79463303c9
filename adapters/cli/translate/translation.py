"""Translates the pods of a text to a dialect, finds what is lost, and prints it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adapters.cli.input.source import InputError, Source
from adapters.cli.output.rows import Column, Row, as_json, table
from adapters.cli.translate.manifest import Check, changed
from adapters.cli.translate.rewrite import (
    as_pod,
    objects,
    pods_in,
    rewrite_resources,
    rewrite_texts,
)
from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, Dialect, DialectError
from adapters.dialects.info import DialectInfo
from adapters.dialects.matching import dialect_of
from adapters.dialects.request_writer import (
    CardFacts,
    Loss,
    RequestWriter,
    losses,
    removed,
    unread_amounts,
)
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
    losses: tuple[Loss, ...]
    foreign_scheduler: str | None = None


@dataclass(frozen=True, slots=True)
class Translation:
    """What came of a text.

    Attributes:
        text: the translated text.
        target: the dialect.
        pods: the translated ones, in order; pods in the target's words and pods that request no
            share are not among them.
    """

    text: str
    target: str
    pods: tuple[TranslatedPod, ...]

    @property
    def exact(self) -> bool:
        """Whether nothing is lost."""
        return not any(pod.losses for pod in self.pods)


def translate(source: Source, target: str, cards: CardFacts) -> Translation:
    """Translate every pod and template of a text.

    Args:
        source: YAML or JSON, one or several documents.
        target: one of ``targets``.
        cards: of the cluster.

    Raises:
        InputError: the text has no document or cannot be parsed; or a pod is invalid, cannot be
            written in the target's words, or demands cards that the target does not describe.
    """
    if not _HAS_CONTENT.search(source.text):
        raise InputError(source.name, "contains no manifest")
    translator = _Translator(target, cards)
    text = changed(source, translator.rewrite)
    return Translation(text, target, tuple(translator.pods))


@dataclass(frozen=True, slots=True)
class _Found:
    """A pod before its translation.

    Attributes:
        content: of the document, which changes.
        number: of the pod in the document.
        path: in the document.
        place: for errors.
        pod: as it was.
        dialect: of the pod.
        request: what it requests.
    """

    content: dict[str, Any]
    number: int
    path: str
    place: str
    pod: Pod
    dialect: Dialect
    request: Request


@dataclass(slots=True)
class _Translator:
    target: str
    cards: CardFacts
    pods: list[TranslatedPod] = field(default_factory=list[TranslatedPod])
    dialects: Sequence[Dialect] = field(default_factory=lambda: registry.dialects({}, Defaults()))

    def rewrite(self, content: Any, place: str) -> Check | None:
        """Translate the pods of a document; None where it has none to translate."""
        found = [
            each
            for number, (path, pod) in enumerate(_pods(content))
            if (
                each := self._found(
                    pod, number, path, f"{place}: {f'{_document(content)} {path}'.rstrip()}"
                )
            )
        ]
        if not found:
            return None
        rewritten = [(each, self._rewrite(each)) for each in found]

        def check(content: Any) -> None:
            """Read the translated pods as they were written."""
            name = _document(content)
            written = [pod for _, pod in _pods(content)]
            for each, gone in rewritten:
                lost = self._losses(each, written[each.number], gone)
                scheduler = each.pod.spec.scheduler_name
                foreign = scheduler and is_foreign_scheduler(scheduler, self.target)
                kept, source = scheduler if foreign else None, each.request.dialect
                self.pods.append(TranslatedPod(name, each.path, source, lost, kept))

        return check

    def _found(self, content: dict[str, Any], number: int, path: str, place: str) -> _Found | None:
        pod = as_pod(content, place)
        try:
            dialect = dialect_of(pod, self.dialects)
            if dialect is None or dialect.name == self.target:
                return None
            request = registry.with_vendor(dialect.read_request(pod))
        except DialectError as error:
            raise InputError(place, str(error)) from error
        vendor = vendor_of(self.target)
        if vendor and request.vendor and vendor != request.vendor:
            problem = f"requests cards of {request.vendor}; {self.target} has those of {vendor}"
            raise InputError(place, f"{problem} only")
        return _Found(content, number, path, place, pod, dialect, request)

    def _rewrite(self, found: _Found) -> frozenset[str]:
        """Write the request of a pod in the target's words; the keys that the pod loses."""
        source, target = writer_of(found.dialect.name), writer_of(self.target)
        gone = texts_of(found.dialect.name) | texts_of(self.target)
        try:
            written = target.write(found.request, self.cards.memory)
        except DialectError as error:
            raise InputError(found.place, str(error)) from error
        names = (container.name for container in found.request.containers)
        resources = dict(zip(names, written.containers, strict=True))
        rewrite_resources(found.content, source.resources | target.resources, resources)
        rewrite_texts(found.content, gone, written.annotations)
        return gone - written.annotations.keys()

    def _losses(
        self, found: _Found, content: dict[str, Any], gone: frozenset[str]
    ) -> tuple[Loss, ...]:
        before = found.request
        try:
            written = as_pod(content, found.place)
            dialect_of(written, self.dialects)  # also has no words of its former dialect
            target = next(each for each in self.dialects if each.name == self.target)
            after = registry.with_vendor(target.read_request(written))
            lost = [*losses(before, after, self.cards)]
            lost += unread_amounts(found.pod, writer_of(found.dialect.name))
            lost += removed(found.pod, gone, found.dialect, before, after)
        except DialectError as error:
            problem = f"cannot be written for {self.target}: {error}"
            raise InputError(found.place, problem) from error
        return tuple(lost)


def _pods(content: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the pods of a document: path, and pod."""
    return [
        (".".join(each for each in (prefix, path) if each), pod)
        for prefix, owner in objects(content)
        for path, pod in pods_in(owner)
    ]


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


def writer_of(name: str) -> RequestWriter:
    """Return what writes a request in a dialect.

    Raises:
        InputError: nothing does.
    """
    writer = _info(name).load_writer()
    if writer is None:
        raise InputError(name, f"cannot be translated; must be one of {', '.join(targets())}")
    return writer


def texts_of(name: str) -> frozenset[str]:
    """Return the annotations and labels that state a request or a result of a dialect."""
    return _info(name).texts(writer_of(name))


def vendor_of(name: str) -> str | None:
    """Return the vendor of the only cards that a dialect can describe; None for several."""
    return _info(name).vendor


def is_foreign_scheduler(name: str, target: str) -> bool:
    """Return whether a ``spec.schedulerName`` is not of those that the target's users run."""
    return name not in (_info(target).scheduler, DEFAULT_SCHEDULER)


def _info(name: str) -> DialectInfo:
    return next(info for info in registry.DIALECTS if info.name == name)


_COLUMNS = tuple(
    map(Column, ("DOCUMENT", "POD", "FROM", "LOSS", "BEFORE", "AFTER")),
)


def as_table(translation: Translation) -> str:
    """Return one line for each loss, a line with the sum, and one for each foreign scheduler."""
    rows = [
        Row("", (pod.document, pod.path, pod.source, loss.field, loss.before, loss.after), {})
        for pod in translation.pods
        for loss in pod.losses
    ]
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
    return (
        f"{table(_COLUMNS, rows) if rows else ''}"
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
                    "losses": [
                        {"field": loss.field, "before": loss.before, "after": loss.after}
                        for loss in pod.losses
                    ],
                }
                for pod in translation.pods
            ],
            "text": translation.text,
        }
    )
