"""Writes a request into a pod of a document; everything else of the pod stays."""

from collections.abc import Collection, Mapping
from typing import Any

from adapters.cli.input.yaml_text import Body


def rewrite_resources(
    pod: dict[str, Any],
    gone: Collection[str],
    wanted: Mapping[str, Mapping[str, int | str]],
) -> None:
    """Replace resources of containers, in limits and in requests, where they are.

    Args:
        pod: or a template.
        gone: resources to remove.
        wanted: resources to write, by name of the container.
    """
    spec = pod["spec"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        resources = container.get("resources") or {}
        for section in ("limits", "requests"):
            amounts = resources.get(section)
            if amounts and not amounts.keys().isdisjoint(gone):
                _replace(amounts, gone, wanted.get(str(container.get("name")), {}))
                if not amounts:
                    del resources[section]


def rewrite_texts(pod: dict[str, Any], gone: Collection[str], wanted: Mapping[str, str]) -> None:
    """Remove annotations and labels, and write annotations.

    Args:
        pod: or a template.
        gone: annotations and labels to remove.
        wanted: annotations to write.
    """
    metadata = pod.get("metadata")
    if metadata is None:
        if not wanted:
            return
        pod["metadata"] = metadata = Body()
    for section, texts in (("annotations", wanted), ("labels", {})):
        found = metadata.get(section)
        if found is None:
            if not texts:
                continue
            metadata[section] = found = Body()
        _replace(found, {*gone, *texts}, texts)
        if not found:
            del metadata[section]


def _replace(
    mapping: dict[str, Any], gone: Collection[str], wanted: Mapping[str, int | str]
) -> None:
    """Put entries in the place of others; comments move along."""
    old = [key for key in mapping if key in gone]
    place = list(mapping).index(old[0]) if old else len(mapping)
    if not isinstance(mapping, Body):
        items = [(key, value) for key, value in mapping.items() if key not in gone]
        items[place:place] = wanted.items()
        mapping.clear()
        mapping.update(items)
        return
    comments = [mapping.ca.items.get(key) for key in old]
    for key in old:
        del mapping[key]
    for offset, (key, value) in enumerate(wanted.items()):
        mapping.insert(place + offset, key, value)
    for key, comment in zip(reversed(list(wanted)), reversed(comments), strict=False):
        if comment is not None:
            mapping.ca.items[key] = comment
