"""Finds the pods of a document, and writes a request into them; everything else stays."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import Body, plain
from adapters.wire.kube import Pod

_READ = ("metadata", "spec")


def pods_in(content: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every mapping with ``spec.containers``, as pods and templates have, with its path.

    The path of a pod that is the document itself is empty.
    """
    if isinstance(content, dict):
        spec = content.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield path, content
            return
        for key, value in content.items():
            yield from pods_in(value, f"{path}.{key}" if path else str(key))
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from pods_in(value, f"{path}[{index}]")


def objects(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a document, each with its path: the items of a list, or the document."""
    items = content.get("items") if isinstance(content, dict) else None
    if isinstance(items, list) and str(content.get("kind")).endswith("List"):
        yield from ((f"items[{index}]", item) for index, item in enumerate(items))
    else:
        yield "", content


def as_pod(content: dict[str, Any], place: str) -> Pod:
    """Return the pod that a mapping describes.

    Raises:
        InputError: a field has another type than in Kubernetes, or two containers have one name.
    """
    try:
        pod = msgspec.convert(
            plain({key: content[key] for key in _READ if content.get(key) is not None}), Pod
        )
    except msgspec.ValidationError as error:
        raise InputError(place, str(error)) from error
    names = [each.name for each in (*(pod.spec.init_containers or ()), *pod.spec.containers)]
    if len(set(names)) < len(names):
        raise InputError(place, f"spec.containers: {', '.join(names)}: names must be unique")
    return pod


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
