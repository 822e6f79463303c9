"""Finds the dialect of a pod."""

from collections.abc import Sequence

import msgspec

from adapters.dialects.containers import resource_names
from adapters.dialects.dialect import Dialect, DialectError
from adapters.wire.kube import Container, Pod, Resources


def dialect_of(pod: Pod, dialects: Sequence[Dialect]) -> Dialect | None:
    """The dialect that a pod uses; None where it requests no share.

    Raises:
        DialectError: it uses several, and none of them allows the others beside it.
    """
    matching = [dialect for dialect in dialects if dialect.matches(pod)]
    for dialect in reversed(matching):  # where two claim what the pod has, the later one has it
        plain = _without(pod, dialect)
        if not any(other.matches(plain) for other in matching if other is not dialect):
            return dialect
    if not matching:
        return None
    raise DialectError(
        "spec.containers[*].resources",
        ", ".join(sorted(name for name in resource_names(pod) if "/" in name)),
        f"mixes the dialects {', '.join(dialect.name for dialect in matching)}; use one of them",
    )


def _without(pod: Pod, dialect: Dialect) -> Pod:
    """The pod without resources of other dialects that are a dialect's own in it."""
    companions, claims = dialect.companions, dialect.claims

    def strip(container: Container) -> Container:
        resources = container.resources
        named = {*(resources.limits or ()), *(resources.requests or ())}
        gone = companions | claims if named - companions else claims
        return msgspec.structs.replace(
            container,
            resources=Resources(
                limits={k: v for k, v in (resources.limits or {}).items() if k not in gone},
                requests={k: v for k, v in (resources.requests or {}).items() if k not in gone},
            ),
        )

    if not companions and not claims:
        return pod
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(strip, pod.spec.containers)),
        init_containers=tuple(map(strip, pod.spec.init_containers or ())),
    )
    return msgspec.structs.replace(pod, spec=spec)
