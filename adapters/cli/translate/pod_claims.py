"""The claims of a pod: found, and removed."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import plain
from adapters.cli.translate.claim_objects import CLAIM, ClaimObjects, Key, references
from adapters.dialects.dra.claim_entries import containers
from adapters.dialects.dra.claim_requests import is_own
from adapters.wire.dra import ClaimSpec
from adapters.wire.dra_pod import ClaimingContainer

Json = dict[str, Any]


def claims_of(
    pod: Mapping[str, Any], namespace: str, known: ClaimObjects, place: str
) -> dict[str, ClaimSpec]:
    """The claim of our driver that each container has, by the container's name.

    Raises:
        InputError: a container has several, or two containers or pods have one.
    """
    own = _own_entries(pod, namespace, known, place)
    found: dict[str, ClaimSpec] = {}
    users: dict[str, str] = {}
    for name, used in _uses(pod, place):
        if used not in own:
            continue
        if name in found:
            raise InputError(place, f"container {name}: has several claims; one can be translated")
        if used in users:
            problem = f"is of the containers {users[used]} and {name}; no share is of two"
            raise InputError(place, f"spec.resourceClaims[{used}]: {problem}")
        found[name], users[used] = known.specs[own[used]], name
    for entry in own.keys() - users.keys():
        raise InputError(place, f"spec.resourceClaims[{entry}]: no container uses it")
    for entry, (kind, _, claim) in own.items():
        if kind == CLAIM and (known.users[own[entry]] > 1 or "kind" not in pod):
            problem = f"claim {claim} is of several pods; no share is"
            raise InputError(place, f"spec.resourceClaims[{entry}]: {problem}")
    return found


def unknown_claim(
    pod: Mapping[str, Any], namespace: str, known: ClaimObjects, place: str
) -> str | None:
    """A claim or a template that a pod names and the text lacks; None where it has all."""
    for (kind, space, name), _ in references(pod, namespace, place):
        if (kind, space, name) not in known.specs:
            return f"the {kind} {'/'.join(each for each in (space, name) if each)}"
    return None


def remove_claims(pod: Json, namespace: str, known: ClaimObjects, place: str) -> None:
    """Remove the claims of our driver from a pod."""
    spec = pod["spec"]
    own = _own_entries(pod, namespace, known, place)
    _keep(spec, "resourceClaims", own)
    for container in containers(pod):
        resources = container.get("resources") or {}
        if resources.get("claims"):
            _keep(resources, "claims", own)


def _own_entries(
    pod: Mapping[str, Any], namespace: str, known: ClaimObjects, place: str
) -> dict[str, Key]:
    """The entries of a pod that name claims of our driver, each with what it names."""
    return {
        entry: key
        for key, entry in references(pod, namespace, place)
        if key in known.specs and is_own(known.specs[key])
    }


def _keep(content: Json, field: str, gone: Collection[str]) -> None:
    left = [each for each in content[field] if each.get("name") not in gone]
    if left:
        content[field] = left
    else:
        del content[field]


def _uses(pod: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """The name of each container with the name of each entry that it uses."""
    for content in containers(pod):
        try:
            container = msgspec.convert(plain(content), ClaimingContainer)
        except msgspec.ValidationError as error:
            raise InputError(place, str(error)) from error
        for use in container.resources.claims or ():
            yield container.name, use.name
