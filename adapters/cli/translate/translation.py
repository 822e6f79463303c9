"""Translates the pods of a text to a dialect, and finds what is lost."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adapters.cli.input.source import InputError, Source
from adapters.cli.translate.manifest import changed
from adapters.cli.translate.pods import as_pod, pods_in
from adapters.cli.translate.rewrite import rewrite_resources, rewrite_texts
from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, Dialect, DialectError
from adapters.dialects.info import DialectInfo
from adapters.dialects.losses import CardFacts, Loss, losses, removed
from adapters.dialects.matching import dialect_of
from adapters.dialects.request_writer import RequestWriter
from adapters.wire.kube import Pod
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
    """

    document: str
    path: str
    source: str
    losses: tuple[Loss, ...]


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


def targets() -> list[str]:
    """The dialects that requests can be written in."""
    return [info.name for info in registry.DIALECTS if info.writer is not None]


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
    text = changed(source, translator)
    return Translation(text, target, tuple(translator.pods))


@dataclass(frozen=True, slots=True)
class _Found:
    """A pod before its translation."""

    content: dict[str, Any]
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
    pending: list[tuple[_Found, frozenset[str]]] = field(
        default_factory=list[tuple[_Found, frozenset[str]]]
    )
    dialects: Sequence[Dialect] = field(default_factory=lambda: registry.dialects({}, Defaults()))

    def apply(self, content: Any, place: str) -> bool:
        """Translate the pods of a document; whether there are any."""
        name = _document(content)
        found = [
            each
            for path, pod in pods_in(content)
            if (each := self._found(pod, path, f"{place}: {f'{name} {path}'.rstrip()}"))
        ]
        self.pending = [(each, self._rewrite(each)) for each in found]
        return bool(found)

    def check(self, content: Any) -> None:
        """Read the translated pods of the document of the last ``apply``, as they were written."""
        name, written = _document(content), dict(pods_in(content))
        for found, gone in self.pending:
            pod = as_pod(written[found.path], found.place)
            lost = self._losses(found, pod, gone)
            self.pods.append(TranslatedPod(name, found.path, found.dialect.name, lost))

    def _found(self, content: dict[str, Any], path: str, place: str) -> _Found | None:
        pod = as_pod(content, place)
        try:
            dialect = dialect_of(pod, self.dialects)
            if dialect is None or dialect.name == self.target:
                return None
            request = _with_vendor(dialect.read_request(pod))
        except DialectError as error:
            raise InputError(place, str(error)) from error
        vendor = _info(self.target).vendor
        if vendor and request.vendor and vendor != request.vendor:
            problem = f"requests cards of {request.vendor}; {self.target} has those of {vendor}"
            raise InputError(place, f"{problem} only")
        return _Found(content, path, place, pod, dialect, request)

    def _rewrite(self, found: _Found) -> frozenset[str]:
        """Write the request of a pod in the target's words; the keys that the pod loses."""
        source, target = _writer(found.dialect.name), _writer(self.target)
        try:
            written = target.write(found.request, self.cards.memory)
        except DialectError as error:
            raise InputError(found.place, str(error)) from error
        names = (container.name for container in found.request.containers)
        resources = dict(zip(names, written.containers, strict=True))
        rewrite_resources(found.content, source.resources | target.resources, resources)
        gone = frozenset().union(*map(_texts, (found.dialect.name, self.target)))
        rewrite_texts(found.content, gone, written.annotations)
        return gone - written.annotations.keys()

    def _losses(self, found: _Found, pod: Pod, gone: frozenset[str]) -> tuple[Loss, ...]:
        target = next(each for each in self.dialects if each.name == self.target)
        try:
            dialect_of(pod, self.dialects)
            after = _with_vendor(target.read_request(pod))
            return (
                *losses(found.request, after, self.cards),
                *_unread(found.pod, _writer(found.dialect.name)),
                *removed(found.pod, gone, found.dialect, found.request, after),
            )
        except DialectError as error:
            problem = f"cannot be written for {self.target}: {error}"
            raise InputError(found.place, problem) from error


def _unread(pod: Pod, writer: RequestWriter) -> list[Loss]:
    return [
        Loss(f"container {container.name}: {resource}", str(amounts[resource]), "removed")
        for container in (*(pod.spec.init_containers or ()), *pod.spec.containers)
        for amounts in (
            {**(container.resources.requests or {}), **(container.resources.limits or {})},
        )
        for resource in sorted(writer.unread & amounts.keys())
    ]


def _with_vendor(request: Request) -> Request:
    return replace(request, vendor=request.vendor or _info(request.dialect).vendor)


def _texts(name: str) -> frozenset[str]:
    """Annotations and labels that state a request or a result of a dialect."""
    writer = _writer(name)
    return writer.annotations | writer.labels | _info(name).result_keys


def _info(name: str) -> DialectInfo:
    return next(info for info in registry.DIALECTS if info.name == name)


def _writer(name: str) -> RequestWriter:
    info = _info(name)
    if info.writer is None:
        raise InputError(name, f"cannot be translated; must be one of {', '.join(targets())}")
    return info.writer()


def _document(content: Any) -> str:
    if not isinstance(content, dict):
        return "document"
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return "/".join(str(each) for each in (content.get("kind"), name) if each) or "document"
