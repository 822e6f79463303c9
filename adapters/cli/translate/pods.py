"""Finds the pods and the pod templates of a document, wherever they are in it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import plain
from adapters.wire.kube import Pod

_READ = ("metadata", "spec")


def pods_in(content: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mapping with ``spec.containers``, which pods and all templates have, with its path.

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
    """The objects of a document, each with its path: the items of a list, or the document."""
    items = content.get("items") if isinstance(content, dict) else None
    if isinstance(items, list) and str(content.get("kind")).endswith("List"):
        yield from ((f"items[{index}]", item) for index, item in enumerate(items))
    else:
        yield "", content


def as_pod(content: dict[str, Any], place: str) -> Pod:
    """The pod that a mapping describes.

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
