"""What the other packages need to know about a dialect, without importing its implementation.

The node agent reads these values. They must be importable without NumPy, pydantic and Kubernetes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from adapters.dialects.dialect import Defaults, Dialect, Document, Documents
from adapters.dialects.request_writer import RequestWriter


@dataclass(frozen=True, slots=True)
class DialectStyle:
    """How the dashboard and the terminal draw the allocations of a dialect.

    Attributes:
        web_color: in CSS notation.
        terminal_color: a color name of rich.
        fill: one character, for terminals without colors.
        letter: one ASCII character, for terminals without Unicode.
    """

    web_color: str
    terminal_color: str
    fill: str
    letter: str


@dataclass(frozen=True, slots=True)
class RuntimeHook:
    """A component of the ecosystem on the node that sets ``NVIDIA_VISIBLE_DEVICES`` itself.

    Attributes:
        name: for error texts.
        annotation: the hook acts on pods that have it.
        remedy: for error texts; what an operator does where hook and agent are in conflict.
    """

    name: str
    annotation: str
    remedy: str


@dataclass(frozen=True, slots=True)
class DialectInfo:
    """One entry of the registry.

    Attributes:
        name: of the dialect, in settings, records, metrics and JSON.
        style: how its allocations are drawn.
        result_keys: annotations and labels that only a scheduler may write.
        allocation_annotations: the ones of ``result_keys`` that each pod with an allocation has
            at least one of.
        documents: settings files that the dialect reads.
        configure: returns the dialect under these settings; raises ``DialectError`` where a
            settings file has an invalid value. It imports the implementation when it is called.
        writer: imports what writes a request in the dialect; None where nothing does.
        vendor: of the only cards that the dialect can describe; None where it describes cards of
            several vendors.
        uses_node_lock: whether the ecosystem's device plugin finds its pods by a lock on the
            node; see ``Dialect.needs_node_lock``.
        runtime_hook: the ecosystem's own hook on the node; None where there is none.
        pod_annotations: annotations that authors of pods may set.
        pod_resources: resources that pods may request, by their default names.
        resources_beside: resources that the ecosystem's scheduler allocates beside the cards, and
            states in a record that the dialect writes too.
        node_sources: where the dialect looks for the cards of a node.
    """

    name: str
    style: DialectStyle
    result_keys: frozenset[str]
    allocation_annotations: frozenset[str]
    documents: frozenset[Document]
    configure: Callable[[Documents, Defaults], Dialect]
    writer: Callable[[], RequestWriter] | None = None
    vendor: str | None = None
    uses_node_lock: bool = False
    runtime_hook: RuntimeHook | None = None
    pod_annotations: frozenset[str] = frozenset()
    pod_resources: frozenset[str] = frozenset()
    resources_beside: frozenset[str] = frozenset()
    node_sources: tuple[str, ...] = ()
