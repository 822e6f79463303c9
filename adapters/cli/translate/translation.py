"""Translates the pods of a text to a dialect or to claims, and finds what is lost."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adapters.cli.input.source import InputError, Source
from adapters.cli.translate.claim_objects import ClaimObjects, namespace_of
from adapters.cli.translate.dialect_words import (
    is_foreign_scheduler,
    texts_of,
    vendor_of,
    writer_of,
)
from adapters.cli.translate.manifest import DocumentFate, changed
from adapters.cli.translate.pod_claims import claims_of, remove_claims, unknown_claim
from adapters.cli.translate.pods import as_pod, objects, pods_in
from adapters.cli.translate.rewrite import add_limits, rewrite_resources, rewrite_texts
from adapters.cli.translate.templates import beside, name_of
from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, Dialect, DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.dra.claim_entries import BY_TEMPLATE, write_entries
from adapters.dialects.dra.claim_requests import read_request
from adapters.dialects.dra.claim_specs import claim_specs, lost_peak
from adapters.dialects.matching import dialect_of
from adapters.dialects.request_writer import (
    CardFacts,
    Loss,
    losses,
    removed,
    unread_amounts,
)
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
        source: the dialect that it had; ``dra`` where it had claims.
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
        target: the dialect, or ``dra``.
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
    claims = ClaimObjects()
    changed(source, claims)
    translator = _Translator(target, cards, claims)
    text = changed(source, translator)
    return Translation(text, target, tuple(translator.pods))


@dataclass(frozen=True, slots=True)
class _Found:
    """A pod before its translation.

    Attributes:
        content: of the document, which changes.
        number: of the pod in the document.
        path: in the document.
        place: for errors.
        owner: the object that it is, or is in.
        pod: as it was.
        dialect: of the pod; None where it has claims.
        request: what it requests.
    """

    content: dict[str, Any]
    number: int
    path: str
    place: str
    owner: dict[str, Any]
    pod: Pod
    dialect: Dialect | None
    request: Request


@dataclass(slots=True)
class _Translator:
    target: str
    cards: CardFacts
    claims: ClaimObjects
    pods: list[TranslatedPod] = field(default_factory=list[TranslatedPod])
    pending: list[tuple[_Found, frozenset[str]]] = field(
        default_factory=list[tuple[_Found, frozenset[str]]]
    )
    templates: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    dialects: Sequence[Dialect] = field(default_factory=lambda: registry.dialects({}, Defaults()))

    def apply(self, content: Any, place: str) -> DocumentFate:
        """Translate the pods of a document; claims that they had of ours go."""
        if self.target != DRA and self.claims.is_replaced(content):
            return DocumentFate.REMOVED
        self.templates = []
        found = [
            each
            for number, (path, pod, owner) in enumerate(_pods(content))
            if (each := self._found(pod, owner, number, path, _place(content, path, place)))
        ]
        self.pending = [(each, self._rewrite(each)) for each in found]
        if found:
            gone = self.claims.is_replaced if self.target != DRA else None
            self.templates = beside(content, self.templates, gone)
        return DocumentFate.CHANGED if found else DocumentFate.KEPT

    def check(self, content: Any) -> None:
        """Read the translated pods of the document of the last ``apply``, as they were written."""
        name = _document(content)
        written = [pod for _, pod, _ in _pods(content)]
        for found, gone in self.pending:
            lost = self._losses(found, written[found.number], gone)
            scheduler = found.pod.spec.scheduler_name
            foreign = scheduler and is_foreign_scheduler(scheduler, self.target)
            self.pods.append(
                TranslatedPod(
                    name, found.path, found.request.dialect, lost, scheduler if foreign else None
                )
            )

    def added(self) -> Sequence[object]:
        """The templates of the claims of the document of the last ``apply``."""
        return self.templates

    def _found(
        self, content: dict[str, Any], owner: dict[str, Any], number: int, path: str, place: str
    ) -> _Found | None:
        pod, namespace = as_pod(content, place), namespace_of(owner)
        own = claims_of(content, namespace, self.claims, place)
        try:
            dialect = dialect_of(pod, self.dialects)
            if dialect is not None and own:
                raise InputError(place, f"has claims and resources of {dialect.name}; use one")
            if dialect is None and not own:
                unknown = unknown_claim(content, namespace, self.claims, place)
                if self.target != DRA and unknown:
                    raise InputError(place, f"names {unknown}, which the input lacks; add it")
                return None
            if (dialect.name if dialect else DRA) == self.target:
                return None
            request = registry.with_vendor(
                dialect.read_request(pod) if dialect else read_request(pod, own)
            )
        except DialectError as error:
            raise InputError(place, str(error)) from error
        vendor = vendor_of(self.target)
        if vendor and request.vendor and vendor != request.vendor:
            problem = f"requests cards of {request.vendor}; {self.target} has those of {vendor}"
            raise InputError(place, f"{problem} only")
        return _Found(content, number, path, place, owner, pod, dialect, request)

    def _rewrite(self, found: _Found) -> frozenset[str]:
        """Write the request of a pod in the target's words; the keys that the pod loses."""
        source = writer_of(found.dialect.name).resources if found.dialect else frozenset[str]()
        gone = texts_of(found.request.dialect) | texts_of(self.target)
        names = [container.name for container in found.request.containers]
        try:
            if self.target == DRA:
                specs = claim_specs(found.request, self.cards.memory)
                rewrite_resources(found.content, source, {})
                rewrite_texts(found.content, gone, {})
                self._claim(found, dict(zip(names, specs, strict=True)))
                return gone
            target = writer_of(self.target)
            written = target.write(found.request, self.cards.memory)
        except DialectError as error:
            raise InputError(found.place, str(error)) from error
        resources = dict(zip(names, written.containers, strict=True))
        if found.dialect:
            rewrite_resources(found.content, source | target.resources, resources)
        else:
            remove_claims(found.content, namespace_of(found.owner), self.claims, found.place)
            add_limits(found.content, resources)
        rewrite_texts(found.content, gone, written.annotations)
        return gone - written.annotations.keys()

    def _claim(self, found: _Found, specs: dict[str, dict[str, Any]]) -> None:
        """Give the containers of a pod claims, of templates in its namespace."""
        names: dict[str, str] = {}
        for container, spec in specs.items():
            wanted = f"{name_of(found.owner)}-{container}"
            names[container], made = self.claims.template(namespace_of(found.owner), wanted, spec)
            self.templates += () if made is None else (made,)
        write_entries(found.content, names, BY_TEMPLATE)

    def _losses(
        self, found: _Found, content: dict[str, Any], gone: frozenset[str]
    ) -> tuple[Loss, ...]:
        before = found.request
        try:
            after = registry.with_vendor(self._written(found, content))
            lost = [*losses(before, after, self.cards)]
            lost += lost_peak(before) if self.target == DRA else ()
            if found.dialect:
                lost += unread_amounts(found.pod, writer_of(found.dialect.name))
                lost += removed(found.pod, gone, found.dialect, before, after)
        except DialectError as error:
            problem = f"cannot be written for {self.target}: {error}"
            raise InputError(found.place, problem) from error
        return tuple(lost)

    def _written(self, found: _Found, content: dict[str, Any]) -> Request:
        """What the translated pod requests.

        Raises:
            DialectError: it is invalid, or has words of its former dialect too.
        """
        pod = as_pod(content, found.place)
        left = claims_of(content, namespace_of(found.owner), self.claims, found.place)
        dialect = dialect_of(pod, self.dialects)
        if self.target == DRA:
            if dialect:
                raise DialectError("resources", dialect.name, "is still named; write it in place")
            return read_request(pod, left)
        if left:
            raise DialectError("spec.resourceClaims", "", "is still there; write it in place")
        target = next(each for each in self.dialects if each.name == self.target)
        return target.read_request(pod)


def _pods(content: Any) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The pods of a document: path, pod, and the object that it is, or is in."""
    return [
        (".".join(each for each in (prefix, path) if each), pod, owner)
        for prefix, owner in objects(content)
        for path, pod in pods_in(owner)
    ]


def _place(content: Any, path: str, place: str) -> str:
    return f"{place}: {f'{_document(content)} {path}'.rstrip()}"


def _document(content: Any) -> str:
    if not isinstance(content, dict):
        return "document"
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return "/".join(str(each) for each in (content.get("kind"), name) if each) or "document"
