"""All dialects, and which of them a pod uses.

A new dialect is one package beside the others and one entry in ``DIALECTS``. Everything outside
the package that depends on the dialect reads its ``DialectInfo``.
"""

from collections.abc import Sequence

import msgspec

from adapters.dialects import record
from adapters.dialects.containers import resource_names
from adapters.dialects.dialect import Defaults, Dialect, DialectError, Document, Documents
from adapters.dialects.info import DialectInfo
from adapters.dialects.koordinator.info import INFO as KOORDINATOR
from adapters.dialects.metax.info import INFO as METAX
from adapters.dialects.volcano.info import INFO as VOLCANO
from adapters.wire.kube import Container, Pod, Resources

DIALECTS: tuple[DialectInfo, ...] = (VOLCANO, KOORDINATOR, METAX)
"""The registry. Its order is the order of lists and legends.

Read it as ``registry.DIALECTS`` or by the functions below, when it is needed and not at import.
"""


def named(name: str) -> DialectInfo | None:
    """The entry of a dialect; None where no dialect has this name."""
    return next((info for info in DIALECTS if info.name == name), None)


def names() -> tuple[str, ...]:
    """The names of all dialects."""
    return tuple(info.name for info in DIALECTS)


def allocation_annotations() -> frozenset[str]:
    """Annotations of which every pod that a scheduler gave an allocation has at least one."""
    return frozenset((record.KEY,)).union(*(info.allocation_annotations for info in DIALECTS))


def documents() -> frozenset[Document]:
    """The settings files that any dialect reads."""
    return frozenset[Document]().union(*(info.documents for info in DIALECTS))


def dialects(settings: Documents, defaults: Defaults) -> tuple[Dialect, ...]:
    """Configure every dialect.

    Raises:
        DialectError: a settings file has an invalid value.
    """
    return tuple(info.configure(settings, defaults) for info in DIALECTS)


def dialect_of(pod: Pod, dialects: Sequence[Dialect]) -> Dialect | None:
    """The dialect that a pod uses; None where it requests no share.

    Raises:
        DialectError: it uses several, and none of them allows the others beside it.
    """
    matching = [dialect for dialect in dialects if dialect.matches(pod)]
    for dialect in matching:
        plain = _without(pod, dialect.companions)
        if not any(other.matches(plain) for other in matching if other is not dialect):
            return dialect
    if not matching:
        return None
    raise DialectError(
        "spec.containers[*].resources",
        ", ".join(sorted(name for name in resource_names(pod) if "/" in name)),
        f"mixes the dialects {', '.join(dialect.name for dialect in matching)}; use one of them",
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
