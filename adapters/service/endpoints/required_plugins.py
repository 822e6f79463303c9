"""Keeps containers from starting while the node agent is away, if the runtime supports it.

The default validator of containerd 2.2 and later, if it is enabled, rejects a container whose pod
names a plugin that is not connected; older runtimes ignore the annotation. Source:
containerd/nri pkg/plugin/annotations.go, plugins/default-validator/default-validator.go.
"""

from collections.abc import Iterable, Mapping

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.wire.decode.decoder import Decoder, UnreadableError

KEY = "required-plugins.noderesource.dev"

_LONGEST = 63
"""Characters of the part of an annotation's key after the slash, at most.
Source: k8s.io/apimachinery/pkg/util/validation/validation.go, qualifiedNameMaxLength."""

_NAMES = Decoder(list[str])


def required(plugin: str, containers: Iterable[str], present: Mapping[str, str]) -> dict[str, str]:
    """The annotations by which containers require a plugin, beside those that they require anyway.

    For a container whose name is too long for a key of its own, the whole pod requires the plugin.

    Args:
        plugin: the name under which it registers.
        containers: their names.
        present: the pod's annotations.

    Raises:
        DialectError: the list of plugins that the pod has already is no JSON array of names.
    """
    wanted: dict[str, str] = {}
    for container in sorted(containers):
        keys = [f"{KEY}/pod", KEY]
        if len(own := f"container.{container}") <= _LONGEST:
            keys.insert(0, f"{KEY}/{own}")
        # Only the most specific key counts, so the new one repeats the plugins of the others.
        effective = next((key for key in keys if key in present), None)
        named = [] if effective is None else _names(effective, present[effective])
        wanted[keys[0]] = msgspec.json.encode([*dict.fromkeys((*named, plugin))]).decode()
    return wanted


def _names(key: str, value: str) -> list[str]:
    try:
        return _NAMES.decode(value)
    except UnreadableError:
        right = 'must be a list of names in JSON, such as ["a", "b"]'
        raise DialectError(f"metadata.annotations[{key}]", value, right) from None
