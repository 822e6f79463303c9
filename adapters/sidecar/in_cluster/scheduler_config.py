"""The schedulers' own settings files, as the cluster's config maps have them. No I/O."""

from collections.abc import Callable, Mapping
from typing import Protocol

import yaml

from adapters.dialects import registry
from adapters.dialects.dialect import Document, Documents
from adapters.wire.kube import ConfigMap

Key = tuple[str, str]
"""Namespace and name."""


def config_map_names() -> frozenset[str]:
    """Names of the config maps that any dialect reads, in whatever namespace they are."""
    return frozenset(name for name, _ in registry.documents())


class NamespacedObject(Protocol):
    """Which config map."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...


class SchedulerConfig:
    """What is known of the config maps; whoever uses them is told once all have been looked for."""

    def __init__(self, learn: Callable[[Documents], None], complain: Callable[[str], None]) -> None:
        """Nothing is known yet.

        Args:
            learn: told all settings files whenever one has changed; a ``ValueError`` of its means
                that the earlier ones stay.
            complain: told in a sentence what cannot be used.
        """
        self._learn = learn
        self._complain = complain
        self._maps: dict[Key, Mapping[str, str]] = {}
        self._unseen = set(config_map_names())
        self._learned: Mapping[Key, Mapping[str, str]] | None = None

    def put(self, found: ConfigMap) -> None:
        """A config map is new, or not what it was."""
        self._maps[(found.metadata.namespace, found.metadata.name)] = dict(found.data or {})
        self._tell()

    def drop(self, what: NamespacedObject) -> None:
        """A config map is gone."""
        self._maps.pop((what.namespace, what.name), None)
        self._tell()

    def synced(self, name: str) -> None:
        """All config maps of this name have been told."""
        self._unseen.discard(name)
        self._tell()

    def _tell(self) -> None:
        if self._unseen or self._learned == self._maps:
            return
        self._learned = dict(self._maps)
        try:
            self._learn(self._documents())
        except ValueError as error:
            self._complain(f"the earlier ones stay: {error}")

    def _documents(self) -> Documents:
        """All settings files, parsed.

        Raises:
            ValueError: one of them is not YAML.
        """
        found: dict[Document, object] = {}
        places: dict[Document, str] = {}
        read = registry.documents()
        for (namespace, name), data in sorted(self._maps.items()):
            place = f"ConfigMap {namespace}/{name}"
            for key in sorted(key for key in data if (name, key) in read):
                if (name, key) in places:
                    told = f"{place}: passed over, since {places[name, key]} is there too"
                    self._complain(told)
                    continue
                places[name, key] = place
                found[name, key] = _parsed(data[key], f"{place}, data[{key}]")
        return found


class SchedulerConfigHandler:
    """Hands what a reflector tells of the config maps of one name to the settings."""

    def __init__(self, name: str, settings: SchedulerConfig) -> None:
        self._name = name
        self._settings = settings

    def on_update(self, thing: ConfigMap) -> None:
        """It is new, or not what it was."""
        self._settings.put(thing)

    def on_delete(self, what: NamespacedObject) -> None:
        """It is no more."""
        self._settings.drop(what)

    def on_unreadable(self, what: NamespacedObject, problem: str) -> None:
        """It is there, and nobody can read it: what was known of it stays."""

    def on_synced(self) -> None:
        """All that there was has been told."""
        self._settings.synced(self._name)


def _parsed(text: str, place: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{place}: is not YAML: {error}") from error
