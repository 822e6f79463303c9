"""The schedulers' own settings, from the config maps among the input."""

from collections.abc import Mapping

import yaml

from adapters.cli.input import loader
from adapters.cli.input.source import InputError, Place
from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, Dialect, DialectError, Document, Documents
from adapters.wire.kube import ConfigMap

ConfigMaps = Mapping[str, tuple[ConfigMap, Place]]
"""By ``namespace/name``, with their places."""


def configured(config_maps: ConfigMaps, defaults: Defaults) -> tuple[Dialect, ...]:
    """Every vocabulary, with the settings that stand in the input.

    Raises:
        InputError: a settings file stands twice, is not YAML, or has a value that cannot be meant.
    """
    settings, places = _settings(config_maps)
    try:
        return registry.dialects(settings, defaults)
    except DialectError as error:
        named = [place for (name, _), place in places.items() if name in error.field]
        raise InputError(named[0] if named else "the settings", str(error)) from error


def documents(config_maps: ConfigMaps) -> Documents:
    """The settings files among config maps, parsed.

    Raises:
        InputError: one stands twice, or is not YAML.
    """
    return _settings(config_maps)[0]


def _settings(config_maps: ConfigMaps) -> tuple[Documents, Mapping[Document, Place]]:
    settings: dict[Document, object] = {}
    places: dict[Document, Place] = {}
    read = registry.documents()
    for full_name, (config, place) in config_maps.items():
        for key, text in (config.data or {}).items():
            document = (config.metadata.name, key)
            if document not in read:
                continue
            if document in places:
                problem = f"ConfigMap {full_name}, data[{key}]: stands in another namespace too"
                raise InputError(place, f"{problem}, at {places[document]}; give only one")
            settings[document], places[document] = _parsed(text, full_name, key, place), place
    return settings, places


def _parsed(text: str, full_name: str, key: str, place: Place) -> object:
    try:
        return yaml.load(text, loader.Loader)  # noqa: S506 - a safe loader
    except loader.FAILURES as error:
        line, problem = loader.explain(error, text)
        where = f"ConfigMap {full_name}, data[{key}], line {line}"
        raise InputError(place, f"{where}: {problem}") from error
