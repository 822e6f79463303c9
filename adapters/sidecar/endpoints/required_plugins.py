"""What keeps a container back while the node agent is away, where the runtime knows it.

The default validator of containerd 2.2 and later, where it is enabled, refuses a container whose
pod names a plugin that is not connected; older runtimes pass over the annotation. Source:
containerd/nri pkg/plugin/annotations.go, plugins/default-validator/default-validator.go.
"""

from collections.abc import Iterable, Mapping

import msgspec

from adapters.dialects.dialect import DialectError

KEY = "required-plugins.noderesource.dev"

_LONGEST = 63
"""Letters of the part of an annotation's key after the slash, at most.
Source: k8s.io/apimachinery/pkg/util/validation/validation.go, qualifiedNameMaxLength."""

_NAMES = msgspec.json.Decoder(list[str])


def required(plugin: str, asking: Iterable[str], there: Mapping[str, str]) -> dict[str, str]:
    """The annotations by which containers require a plugin, beside those that they require anyway.

    A container whose name is too long for a key of its own makes all of its pod require it.

    Args:
        plugin: by the name under which it registers.
        asking: names of the containers.
        there: the pod's annotations.

    Raises:
        DialectError: what the pod requires already is no list of names in JSON.
    """
    wanted: dict[str, str] = {}
    for container in sorted(asking):
        keys = [f"{KEY}/pod", KEY]
        if len(own := f"container.{container}") <= _LONGEST:
            keys.insert(0, f"{KEY}/{own}")
        # The most special one alone counts, so ours repeats what it stands before.
        said = next((key for key in keys if key in there), None)
        named = [] if said is None else _names(said, there[said])
        wanted[keys[0]] = msgspec.json.encode([*dict.fromkeys((*named, plugin))]).decode()
    return wanted


def _names(key: str, value: str) -> list[str]:
    try:
        return _NAMES.decode(value)
    except msgspec.DecodeError:
        right = 'must be a list of names in JSON, such as ["a", "b"]'
        raise DialectError(f"metadata.annotations[{key}]", value, right) from None
