"""All dialects.

A new dialect is one package beside the others and one entry in ``DIALECTS``. Everything outside
the package that depends on the dialect reads its ``DialectInfo``.
"""

from collections.abc import Collection
from dataclasses import replace

from adapters.dialects import allocation_record
from adapters.dialects.dialect import Defaults, Dialect, Document, Documents
from adapters.dialects.hami.keys import INFO as HAMI
from adapters.dialects.info import DialectInfo
from adapters.dialects.koordinator.keys import INFO as KOORDINATOR
from adapters.dialects.metax.keys import INFO as METAX
from adapters.dialects.nvidia.keys import INFO as NVIDIA
from adapters.dialects.volcano.keys import INFO as VOLCANO
from adapters.wire.kube import ConfigMap
from core.requests.reason import Cause, Reason
from core.requests.request import Request

DIALECTS: tuple[DialectInfo, ...] = (VOLCANO, KOORDINATOR, METAX, HAMI, NVIDIA)
"""The registry. Its order is the order of lists and legends.

Read it as ``registry.DIALECTS`` or by the functions below, when it is needed and not at import.
"""


MIRROR = "dragoman.dev/mirror-"
"""Prefix of the annotations that mark a record as a mirror, before the name of its dialect."""


def named(name: str) -> DialectInfo | None:
    """Return the entry of a dialect; None where no dialect has this name."""
    return next((info for info in DIALECTS if info.name == name), None)


def with_vendor(request: Request) -> Request:
    """Return the request with the vendor of its dialect's cards, if it states none."""
    info = named(request.dialect)
    return replace(request, vendor=request.vendor or (info.vendor if info else None))


def names() -> tuple[str, ...]:
    """Return the names of all dialects."""
    return tuple(info.name for info in DIALECTS)


def allocation_annotations() -> frozenset[str]:
    """Return the annotations of which every pod with an allocation of a scheduler has one."""
    return frozenset((allocation_record.KEY,)).union(
        *(info.allocation_annotations for info in DIALECTS)
    )


def own_records(annotations: Collection[str], own: str = "") -> frozenset[str]:
    """Return the annotations by which a scheduler recorded a pod's cards.

    Mirrored records are not theirs.

    Args:
        annotations: the keys of all annotations of the pod.
        own: the name of the dialect in which the pod requests a share, if that is known. Its record
            is no mirror, also where another program wrote a mark beside it.
    """
    mirrored = {
        info.mirror
        for info in DIALECTS
        if info.mirror is not None and info.name != own and mirror_mark(info.name) in annotations
    }
    return allocation_annotations().intersection(annotations) - mirrored


def mirror_mark(name: str) -> str:
    """Return the annotation that marks the record of a dialect as a mirror."""
    return f"{MIRROR}{name}"


def mirror_keys(names: Collection[str]) -> frozenset[str]:
    """Return the annotations of the mirrored records of these dialects, and their marks."""
    return frozenset(
        key
        for info in DIALECTS
        if info.mirror is not None and info.name in names
        for key in (info.mirror, mirror_mark(info.name))
    )


def mirror_targets() -> tuple[str, ...]:
    """Return the names of the dialects whose schedulers count mirrored records."""
    return tuple(info.name for info in DIALECTS if info.mirror is not None)


def service_keys() -> frozenset[str]:
    """Return annotations and labels of pods that only schedulers and the service may write."""
    return frozenset((allocation_record.KEY, *map(mirror_mark, mirror_targets()))).union(
        *(info.result_keys for info in DIALECTS)
    )


def documents() -> frozenset[Document]:
    """Return the settings files that any dialect reads."""
    return frozenset[Document]().union(*(info.documents for info in DIALECTS))


def document_labels() -> tuple[str, ...]:
    """Return labels, as ``key=value``, of ConfigMaps of any name that have a settings file."""
    return tuple(sorted({label for info in DIALECTS for label, _ in info.labelled_documents}))


def document_of(config: ConfigMap, key: str) -> Document | None:
    """Return the settings file that a ConfigMap's key is, by name or label; None for none."""
    name = config.metadata.name
    if (name, key) in documents():
        return name, key
    labels = {f"{label}={value}" for label, value in (config.metadata.labels or {}).items()}
    for info in DIALECTS:
        for label, document in info.labelled_documents:
            if label in labels and document[1] == key:
                return document
    return None


def annotations() -> frozenset[str]:
    """Return every annotation of a pod that a dialect reads or writes."""
    return service_keys().union(*(info.pod_annotations for info in DIALECTS))


def labels() -> frozenset[str]:
    """Return every label of a pod that a dialect reads."""
    return frozenset[str]().union(*(info.pod_labels for info in DIALECTS))


def resources() -> frozenset[str]:
    """Return every resource that a dialect counts, by its default name."""
    return frozenset[str]().union(*(info.pod_resources for info in DIALECTS))


def resources_beside() -> frozenset[str]:
    """Return resources that a scheduler allocates beside cards; see ``DialectInfo``."""
    return frozenset[str]().union(*(info.resources_beside for info in DIALECTS))


def node_sources(names: Collection[str]) -> tuple[str, ...]:
    """Return the places where these dialects look for the cards of a node."""
    return tuple(each for info in DIALECTS if info.name in names for each in info.node_sources)


def dialects(settings: Documents, defaults: Defaults) -> tuple[Dialect, ...]:
    """Configure every dialect.

    Raises:
        DialectError: a settings file has an invalid value.
    """
    return tuple(info.load().configured(settings, defaults) for info in DIALECTS)


def rejection_text(request: Request, reason: Reason) -> str:
    """Return the text of a reason; of a node without cards, also where they were looked for."""
    sources = node_sources({request.dialect, *request.alternatives})
    if reason.cause is not Cause.NO_CARDS or reason.detail or not sources:
        return reason.text()
    return (
        f"{reason.text()}: neither {' nor '.join(sources)} nor its agent lists any;"
        " each is missing, empty or cannot be read"
    )
