"""Finds the dialect of a pod, and the pods that a device plugin serves without any scheduler.

Such a plain pod is not Dragoman's on a node without cards of a ledger.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from adapters.dialects.containers import resource_names
from adapters.dialects.device_plugins import plugin_amounts, plugin_share
from adapters.dialects.dialect import Dialect, DialectError
from adapters.wire.kube import Container, Pod, Resources
from core.requests.request import Request

MOST_CONTAINERS = 256
"""Containers of a pod with a share; the search for their cards is a call in a call for each."""

LONGEST_NAME = 253
"""Characters of a name or uid. Source: k8s.io/apimachinery/pkg/util/validation/validation.go,
DNS1123SubdomainMaxLength."""

LONGEST_ANNOTATIONS = 256 << 10
"""Characters of all annotations. Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go,
TotalAnnotationSizeLimitB."""


def dialect_of(pod: Pod, dialects: Sequence[Dialect]) -> Dialect | None:
    """Return the dialect that a pod uses; None where it requests no share.

    Raises:
        DialectError: it uses several, and none of them allows the others beside it; or it has more
            containers, longer names or longer annotations than a pod can have.
    """
    matching = [dialect for dialect in dialects if dialect.matches(pod)]
    if not matching:
        return None
    _check_size(pod)
    if len(matching) == 1:
        return matching[0]
    for dialect in reversed(matching):  # where two claim what the pod has, the later one has it
        plain = _without(pod, dialect)
        if not any(other.matches(plain) for other in matching if other is not dialect):
            return dialect
    raise DialectError(
        "spec.containers[*].resources",
        ", ".join(sorted(name for name in resource_names(pod) if "/" in name)),
        f"mixes the dialects {', '.join(dialect.name for dialect in matching)}; use one of them",
    )


def _check_size(pod: Pod) -> None:
    """Check that what is kept of a request is small; the API server checks most of it too.

    Raises:
        DialectError: something is too long, or there are too many containers.
    """
    about = pod.metadata
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    if len(containers) > MOST_CONTAINERS:
        problem = f"a pod with a share has at most {MOST_CONTAINERS} containers"
        raise DialectError("spec.containers", str(len(containers)), problem)
    named = (about.name, about.namespace, about.uid, *(each.name for each in containers))
    longest = max(named, key=len)
    if len(longest) > LONGEST_NAME:
        problem = f"{len(longest)} characters, a name has at most {LONGEST_NAME}"
        raise DialectError("metadata.name", longest[:LONGEST_NAME], problem)
    size = sum(len(key) + len(value) for key, value in (about.annotations or {}).items())
    if size > LONGEST_ANNOTATIONS:
        problem = f"annotations have at most {LONGEST_ANNOTATIONS} characters"
        raise DialectError("metadata.annotations", str(size), problem)


def _without(pod: Pod, dialect: Dialect) -> Pod:
    """Return the pod without resources of other dialects that are a dialect's own in it."""
    companions, shared = dialect.companions, dialect.shared_resources

    def strip(container: Container) -> Container:
        resources = container.resources
        named = {*(resources.limits or ()), *(resources.requests or ())}
        gone = companions | shared if named - companions else shared
        return msgspec.structs.replace(
            container,
            resources=Resources(
                limits={k: v for k, v in (resources.limits or {}).items() if k not in gone},
                requests={k: v for k, v in (resources.requests or {}).items() if k not in gone},
            ),
        )

    if not companions and not shared:
        return pod
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(strip, pod.spec.containers)),
        init_containers=tuple(map(strip, pod.spec.init_containers or ())),
    )
    return msgspec.structs.replace(pod, spec=spec)


NO_AMOUNTS: Mapping[str, int] = MappingProxyType({})
"""The amounts of a pod that requests more than a plugin's devices, or none of these."""


def plain_amounts(pod: Pod, dialects: Sequence[Dialect]) -> Mapping[str, int]:
    """Return the devices of plugins that a pod requests, by resource.

    Empty for a pod that is not plain.

    Raises:
        DialectError: the request is invalid.
    """
    if not any(map(plugin_share, resource_names(pod))):
        return NO_AMOUNTS
    dialect = dialect_of(pod, dialects)
    return NO_AMOUNTS if dialect is None else amounts_of(pod, dialect.read_request(pod))


def amounts_of(pod: Pod, request: Request) -> Mapping[str, int]:
    """Return the devices of plugins by resource, where the pod's request is known.

    Raises:
        DialectError: an amount is invalid.
    """
    return NO_AMOUNTS if request.plugin is None else plugin_amounts(pod)
