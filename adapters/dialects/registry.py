"""All vocabularies, and which of them a pod speaks.

A new one is one package beside the others and one line here.
"""

from collections.abc import Sequence

import msgspec

from adapters.dialects.containers import resource_names
from adapters.dialects.dialect import Defaults, Dialect, DialectError, Document, Settings
from adapters.dialects.koordinator import dialect as koordinator
from adapters.dialects.metax import dialect as metax
from adapters.dialects.volcano import dialect as volcano
from adapters.wire.kube import Container, Pod, Resources

DOCUMENTS: frozenset[Document] = frozenset(
    (*volcano.DOCUMENTS, *koordinator.DOCUMENTS, *metax.DOCUMENTS)
)
"""The settings files that any vocabulary reads."""


def dialects(settings: Settings, defaults: Defaults) -> tuple[Dialect, ...]:
    """Every vocabulary, configured.

    Raises:
        DialectError: a settings file has a value that cannot be meant.
    """
    return (
        volcano.Volcano.configured(settings, defaults),
        koordinator.Koordinator.configured(settings, defaults),
        metax.Metax.configured(settings, defaults),
    )


def dialect_of(pod: Pod, dialects: Sequence[Dialect]) -> Dialect | None:
    """The vocabulary in which a pod asks; None where it asks for no share.

    Raises:
        DialectError: it asks in several, and none of them allows the others beside it.
    """
    asking = [dialect for dialect in dialects if dialect.asks(pod)]
    for dialect in asking:
        plain = _without(pod, dialect.companions)
        if not any(other.asks(plain) for other in asking if other is not dialect):
            return dialect
    if not asking:
        return None
    raise DialectError(
        "spec.containers[*].resources",
        ", ".join(sorted(name for name in resource_names(pod) if "/" in name)),
        f"mixes the vocabularies {', '.join(dialect.name for dialect in asking)}; use one of them",
    )


def _without(pod: Pod, companions: frozenset[str]) -> Pod:
    def strip(container: Container) -> Container:
        resources = container.resources
        named = {*(resources.limits or ()), *(resources.requests or ())}
        if not named - companions:
            return container
        return msgspec.structs.replace(
            container,
            resources=Resources(
                limits={k: v for k, v in (resources.limits or {}).items() if k not in companions},
                requests={
                    k: v for k, v in (resources.requests or {}).items() if k not in companions
                },
            ),
        )

    if not companions:
        return pod
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(strip, pod.spec.containers)),
        init_containers=tuple(map(strip, pod.spec.init_containers or ())),
    )
    return msgspec.structs.replace(pod, spec=spec)
