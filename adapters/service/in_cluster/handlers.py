"""Handlers of watches that hand quotas and the schedulers' settings files to the service."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from adapters.cluster.watch.object_tracker import Identity
from adapters.dialects import registry
from adapters.dialects.dialect import Dialect, Document, Documents
from adapters.dialects.host_quota import HostLimits, host_limits
from adapters.service.cluster_state.cluster_cache import ClusterCacheHandler, ObjectKey
from adapters.service.decide.state.quotas import Quotas
from adapters.stores.store import stored_quota
from adapters.wire.decode import yaml_decoding
from adapters.wire.decode.decoder import UnreadableError
from adapters.wire.kube import ConfigMap, Unreadable
from adapters.wire.kube_policy import ResourceQuotaObject, limits_of_extended_resources
from adapters.wire.records.quota import NAME, QuotaRecordError, ShareQuotaObject
from core.quota.amounts import NO_LIMITS

NO_NAMES: Mapping[str, str] = MappingProxyType({})
"""All config maps have their usual names."""

Key = tuple[str, str]
"""Namespace and name."""


def config_map_names(renamed: Mapping[str, str] = NO_NAMES) -> frozenset[str]:
    """Return the names of the config maps that a dialect reads.

    Args:
        renamed: by its usual name, the one that a config map has in this cluster.
    """
    return frozenset(renamed.get(name, name) for name, _ in registry.documents())


class SchedulerConfig:
    """Collects the config maps; applies them when every name was listed, and after each change.

    Every tenant may create a config map of these names in a namespace of its own. Such a one must
    not change what resources mean, and must not cause all nodes to be read again.
    """

    def __init__(
        self,
        namespaces: Sequence[str],
        apply: Callable[[Documents], None],
        reject: Callable[[str], None],
        renamed: Mapping[str, str] = NO_NAMES,
    ) -> None:
        """Begin without a config map.

        Args:
            namespaces: of the schedulers and device plugins; config maps elsewhere are reported
                and not used. Of a file in several, the one of the first namespace is used.
            apply: called with all settings files when one has changed; where it raises
                ``ValueError``, the earlier ones stay in use.
            reject: called with a sentence about a file that is not used.
            renamed: as for ``config_map_names``.
        """
        self._namespaces = namespaces
        self._apply = apply
        self._reject = reject
        self._foreign: set[Key] = set()
        self._maps: dict[Key, Mapping[str, str]] = {}
        self._usual = {actual: usual for usual, actual in renamed.items()}
        self._unlisted = set(config_map_names(renamed))
        self._applied: Mapping[Key, Mapping[str, str]] | None = None
        self._parsed: dict[Document, object] = {}

    def put(self, config_map: ConfigMap) -> None:
        """Add or replace a config map."""
        key = (config_map.metadata.namespace, config_map.metadata.name)
        if key[0] not in self._namespaces:
            if key not in self._foreign:  # reported once, however often it is written
                self._foreign.add(key)
                problem = "ignored, because schedulerNamespaces does not name its namespace"
                self._reject(f"ConfigMap {'/'.join(key)}: {problem}")
            return
        self._maps[key] = dict(config_map.data or {})
        self._apply_if_changed()

    def drop(self, what: ObjectKey) -> None:
        """Remove a deleted config map."""
        self._foreign.discard((what.namespace, what.name))
        self._maps.pop((what.namespace, what.name), None)
        self._apply_if_changed()

    def synced(self, name: str) -> None:
        """Note that all config maps of this name were listed."""
        self._unlisted.discard(name)
        self._apply_if_changed()

    def handler(self, name: str) -> ClusterCacheHandler[ConfigMap]:
        """Return what hands over the config maps of one name; unreadable ones stay as they were."""
        return ClusterCacheHandler(self.put, self.drop, partial(self.synced, name))

    def _apply_if_changed(self) -> None:
        """Apply all settings files; of one that is not YAML, its earlier state."""
        if self._unlisted or self._applied == self._maps:
            return
        self._applied = dict(self._maps)
        documents: dict[Document, object] = {}
        places: dict[Document, str] = {}
        read = registry.documents()
        for namespace, name in sorted(
            self._maps, key=lambda key: (self._namespaces.index(key[0]), key[1])
        ):
            data = self._maps[namespace, name]
            place = f"ConfigMap {namespace}/{name}"
            usual = self._usual.get(name, name)
            for key in sorted(key for key in data if (usual, key) in read):
                document = (usual, key)
                if document in places:
                    self._reject(f"{place}: ignored, because {places[document]} exists too")
                    continue
                places[document] = place
                try:
                    documents[document] = yaml_decoding.decode(data[key])
                except UnreadableError as error:
                    self._reject(f"{place}, data[{key}]: its earlier state stays in use: {error}")
                    if document in self._parsed:
                        documents[document] = self._parsed[document]
        self._parsed = documents
        try:
            self._apply(documents)
        except ValueError as error:
            self._reject(f"the earlier settings stay in use: {error}")


@dataclass(eq=False, slots=True)
class ResourceQuotaHandler:
    """An ``EventHandler``. Kubernetes writes the status of each object with every pod.

    ``dialects`` are as they are configured now; ``synced`` is called after each full list, and
    ``report`` once with an object's namespace and name, and what is wrong with it.
    """

    _quotas: Quotas
    _dialects: Callable[[], Sequence[Dialect]]
    _synced: Callable[[], None]
    _report: Callable[[str, str], None]
    _hard: dict[str, dict[str, Mapping[str, object] | None]] = field(default_factory=dict)
    _read: dict[tuple[str, str], HostLimits] = field(default_factory=dict)

    def on_update(self, thing: ResourceQuotaObject) -> None:
        """Add or replace an object; most have no limit that matters here."""
        meta = thing.metadata
        self._put(meta.namespace, meta.name, limits_of_extended_resources(thing))

    def on_delete(self, what: Identity) -> None:
        """Remove a deleted object."""
        self._put(what.namespace, what.name, {})

    def on_unreadable(self, what: Unreadable, problem: str) -> None:  # noqa: ARG002
        """Allocate nothing more in the namespace: the object may limit it to any amount."""
        self._put(what.namespace, what.name, None)

    def on_synced(self) -> None:
        """Report that all objects were listed."""
        self._synced()

    def read_again(self) -> None:
        """Read all objects by the dialects' new settings."""
        for namespace in [*self._hard]:
            self._apply(namespace)

    def _put(self, namespace: str, name: str, hard: Mapping[str, object] | None) -> None:
        known = self._hard.get(namespace, {})
        if known.get(name, {}) == hard:
            return
        rest = {other: each for other, each in known.items() if other != name}
        self._hard[namespace] = rest if hard == {} else {**rest, name: hard}
        self._apply(namespace)

    def _apply(self, namespace: str) -> None:
        """Apply the strictest of all objects of the namespace."""
        limits = NO_LIMITS
        objects = self._hard[namespace]
        for name, hard in objects.items():
            found = host_limits(hard, self._dialects())
            limits = limits.strictest(found.limits)
            if self._read.get((namespace, name)) != found:
                for problem in found.problems:
                    self._report(f"{namespace}/{name}", problem)
            self._read[namespace, name] = found
        self._read = {
            key: each
            for key, each in self._read.items()
            if key[0] != namespace or key[1] in objects
        }
        if not objects:
            del self._hard[namespace]
        self._quotas.restrict(namespace, limits)


@dataclass(eq=False, slots=True)
class QuotaHandler:
    """An ``EventHandler``, with callbacks as of ``ResourceQuotaHandler``."""

    _quotas: Quotas
    _synced: Callable[[], None]
    _report: Callable[[str, str], None]

    def on_update(self, thing: ShareQuotaObject) -> None:
        """Add or replace a quota."""
        try:
            self._quotas.apply(stored_quota(thing))
        except QuotaRecordError as error:
            meta = thing.metadata
            self.on_unreadable(Unreadable(meta.namespace, meta.name, meta.uid), str(error))

    def on_delete(self, what: Identity) -> None:
        """Remove a deleted quota."""
        if what.name == NAME:
            self._quotas.drop(what.namespace)

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Refuse the pods of a namespace whose quota cannot be used."""
        self._report(f"{what.namespace}/{what.name}", problem)
        if what.name == NAME:
            self._quotas.reject(what.namespace, problem)

    def on_synced(self) -> None:
        """Report that all quotas were listed."""
        self._synced()
