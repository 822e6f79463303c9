"""What the other packages need to know about a dialect, without importing its implementation.

The node agent reads these values. They must be importable without NumPy, pydantic and Kubernetes.
"""

from dataclasses import dataclass
from pkgutil import resolve_name

from adapters.dialects.dialect import Dialect, Document
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
        labelled_documents: those whose ConfigMap can have another name, each with the label by
            which it is known then, as ``key=value``.
        implementation: the subclass of ``Dialect``, as ``module:name``: the node agent reads this
            entry and must not import it.
        writer: the ``RequestWriter``, as ``module:name``; None where nothing writes requests in
            the dialect.
        vendor: of the only cards that the dialect can describe; None where it describes cards of
            several vendors.
        uses_node_lock: whether the ecosystem's device plugin finds its pods by a lock on the
            node; see ``Dialect.needs_node_lock``.
        runtime_hook: the ecosystem's own hook on the node; None where there is none.
        mirror: the annotation in which the ecosystem's scheduler counts what pods of other dialects
            have (``adapters.dialects.mirrors``); None where it counts no such record.
        pod_annotations: annotations that authors of pods may set.
        kept_annotations: those of ``pod_annotations`` that only schedulers may change once the pod
            exists, because other pods of its cards depend on them.
        pod_resources: resources that pods may request, by their default names.
        resources_beside: resources that the ecosystem's scheduler allocates beside the cards, and
            states in a record that the dialect writes too.
        node_sources: where the dialect looks for the cards of a node.
        scheduler: the name that the ecosystem's scheduler has as it is installed, for
            ``spec.schedulerName``; None where the ecosystem has none of its own.
    """

    name: str
    style: DialectStyle
    result_keys: frozenset[str]
    allocation_annotations: frozenset[str]
    documents: frozenset[Document]
    implementation: str
    labelled_documents: frozenset[tuple[str, Document]] = frozenset()
    writer: str | None = None
    vendor: str | None = None
    uses_node_lock: bool = False
    runtime_hook: RuntimeHook | None = None
    mirror: str | None = None
    pod_annotations: frozenset[str] = frozenset()
    pod_labels: frozenset[str] = frozenset()
    kept_annotations: frozenset[str] = frozenset()
    pod_resources: frozenset[str] = frozenset()
    resources_beside: frozenset[str] = frozenset()
    node_sources: tuple[str, ...] = ()
    scheduler: str | None = None

    def load(self) -> type[Dialect]:
        """Import the implementation."""
        implementation: type[Dialect] = resolve_name(self.implementation)
        return implementation

    def load_writer(self) -> RequestWriter | None:
        """Import what writes requests in the dialect; None where nothing does."""
        if self.writer is None:
            return None
        writer: RequestWriter = resolve_name(self.writer)
        return writer

    def texts(self, writer: RequestWriter) -> frozenset[str]:
        """Return the annotations and labels that state a request or a result of the dialect."""
        return writer.annotations | writer.labels | self.result_keys
