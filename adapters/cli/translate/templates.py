"""Templates of claims beside the objects whose pods use them."""

from collections.abc import Callable
from typing import Any

from adapters.cli.translate.claim_objects import Json
from adapters.cli.translate.pods import objects

_LONGEST = 180
"""Characters of an object's name in that of a template, whose claims' names must fit 253."""


def name_of(owner: Any) -> str:
    """The beginning of the names of an object's templates."""
    metadata = owner.get("metadata") if isinstance(owner, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    found = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-.")
    return str(found or owner.get("kind") or "pod").lower()[:_LONGEST]


def beside(
    content: Any, templates: list[Json], is_gone: Callable[[Any], bool] | None
) -> list[Json]:
    """Put templates into a list of objects; those that belong behind the document.

    Args:
        content: a document.
        templates: of its pods.
        is_gone: whether an item of a list has to go; None where none has.
    """
    if not (isinstance(content, dict) and next(objects(content), ("", None))[0]):
        return templates
    items = content["items"]
    if is_gone is not None:
        items[:] = [each for each in items if not is_gone(each)]
    items.extend(templates)
    return []
