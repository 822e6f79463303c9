"""The claims and templates of claims that a text contains, and those that a translation writes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import plain
from adapters.cli.translate.manifest import DocumentFate
from adapters.cli.translate.pods import objects, pods_in
from adapters.dialects.dra.claim_requests import is_own
from adapters.wire.dra import ClaimSpec
from adapters.wire.kube import PodClaim

GROUP, VERSION = "resource.k8s.io", "resource.k8s.io/v1"
CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"

Key = tuple[str, str, str]
"""Kind, namespace and name."""

Json = dict[str, Any]


@dataclass(slots=True)
class ClaimObjects:
    """Claims and templates of our driver and of others, by kind, namespace and name.

    Attributes:
        specs: by object, the spec of the claim, or of the claims that a template makes.
        users: how many pods and templates of pods of the text name each.
    """

    specs: dict[Key, ClaimSpec] = field(default_factory=dict[Key, ClaimSpec])
    users: Counter[Key] = field(default_factory=Counter[Key])

    def apply(self, content: Any, place: str) -> DocumentFate:
        """Note what a document contains."""
        for _, found in objects(content):
            key = key_of(found)
            if key is not None:
                self.specs[key] = _spec(found, key[0], place)
            namespace = namespace_of(found)
            for _, pod in pods_in(found):
                self.users.update(each for each, _ in references(pod, namespace, place))
        return DocumentFate.KEPT

    def check(self, content: Any) -> None:
        """Accept every document: none changes."""

    def added(self) -> Sequence[object]:
        """Return no document."""
        return ()

    def is_replaced(self, content: Any) -> bool:
        """Whether an object is a claim of ours whose pods state their requests themselves now."""
        key = key_of(content)
        return key is not None and self.users[key] > 0 and is_own(self.specs[key])

    def template(self, namespace: str, name: str, spec: Json) -> tuple[str, Json | None]:
        """The name of a template with a spec, and the template; None where there is one.

        Args:
            namespace: of the pod.
            name: the name that it gets where no other template has it.
            spec: the spec of the claims that it makes.
        """
        wanted, number = msgspec.convert(spec, ClaimSpec), 1
        while True:
            free = name if number == 1 else f"{name}-{number}"
            found = self.specs.setdefault((TEMPLATE, namespace, free), wanted)
            if found is wanted:
                return free, _template(namespace, free, spec)
            if found == wanted:
                return free, None
            number += 1


def _template(namespace: str, name: str, spec: Json) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": VERSION,
        "kind": TEMPLATE,
        "metadata": metadata,
        "spec": {"spec": spec},
    }


def key_of(content: Any) -> Key | None:
    """What identifies a claim or a template; None for another object."""
    if not isinstance(content, dict) or content.get("kind") not in (CLAIM, TEMPLATE):
        return None
    metadata = content.get("metadata")
    if not str(content.get("apiVersion")).startswith(f"{GROUP}/") or not isinstance(metadata, dict):
        return None
    return str(content["kind"]), namespace_of(content), str(metadata.get("name"))


def namespace_of(content: Any) -> str:
    """The namespace of an object; empty where it states none."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""


def references(pod: Mapping[str, Any], namespace: str, place: str) -> Iterator[tuple[Key, str]]:
    """The claims and templates that a pod names, each with the name of its entry.

    Raises:
        InputError: an entry has another form than in Kubernetes.
    """
    try:
        entries = msgspec.convert(
            plain(pod["spec"].get("resourceClaims") or []), tuple[PodClaim, ...]
        )
    except msgspec.ValidationError as error:
        raise InputError(place, f"spec.resourceClaims: {error}") from error
    for each in entries:
        if each.resource_claim_template_name:
            yield (TEMPLATE, namespace, each.resource_claim_template_name), each.name
        elif each.resource_claim_name:
            yield (CLAIM, namespace, each.resource_claim_name), each.name


def _spec(content: Json, kind: str, place: str) -> ClaimSpec:
    spec = plain(content.get("spec"))
    if kind == TEMPLATE and isinstance(spec, dict):
        spec = spec.get("spec")
    try:
        return msgspec.convert({} if spec is None else spec, ClaimSpec)
    except msgspec.ValidationError as error:
        raise InputError(place, f"spec: {error}") from error
