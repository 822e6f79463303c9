"""The schedulers' own settings files, from the cluster's config maps. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from adapters.cluster.watch.object_tracker import Identity
from adapters.dialects import registry
from adapters.dialects.dialect import Document, Documents
from adapters.wire.decode import yaml_decoding
from adapters.wire.decode.decoder import UnreadableError
from adapters.wire.kube import ConfigMap, Unreadable

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

    def drop(self, what: Identity) -> None:
        """Remove a deleted config map."""
        self._foreign.discard((what.namespace, what.name))
        self._maps.pop((what.namespace, what.name), None)
        self._apply_if_changed()

    def synced(self, name: str) -> None:
        """Note that all config maps of this name were listed."""
        self._unlisted.discard(name)
        self._apply_if_changed()

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


class SchedulerConfigHandler:
    """Hands the config maps of one name from a reflector to the settings."""

    def __init__(self, name: str, settings: SchedulerConfig) -> None:
        self._name = name
        self._settings = settings

    def on_update(self, thing: ConfigMap) -> None:
        """Add or replace a config map."""
        self._settings.put(thing)

    def on_delete(self, what: Identity) -> None:
        """Remove a deleted config map."""
        self._settings.drop(what)

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Keep the earlier state of a config map that cannot be decoded."""

    def on_synced(self) -> None:
        """Note that all config maps of this name were listed."""
        self._settings.synced(self._name)
