"""The schedulers' own settings, from the ConfigMaps of the input."""

from collections.abc import Mapping

from adapters.cli.input import loader
from adapters.cli.input.source import InputError, InputLocation
from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, Dialect, DialectError, Document, Documents
from adapters.wire.kube import ConfigMap

ConfigMaps = Mapping[str, tuple[ConfigMap, InputLocation]]
"""ConfigMaps by ``namespace/name``, with their locations in the input."""


def configured_dialects(config_maps: ConfigMaps, defaults: Defaults) -> tuple[Dialect, ...]:
    """Configure every dialect with the settings in the input.

    Raises:
        InputError: a settings file exists twice, is not YAML, exceeds a limit or has an invalid
            value.
    """
    settings, places = _settings(config_maps)
    try:
        return registry.dialects(settings, defaults)
    except DialectError as error:
        named = [place for (name, _), place in places.items() if name in error.field]
        raise InputError(named[0] if named else "the settings", str(error)) from error


def documents(config_maps: ConfigMaps) -> Documents:
    """Parse the settings files among ConfigMaps.

    Raises:
        InputError: one exists twice, is not YAML or exceeds a limit.
    """
    return _settings(config_maps)[0]


def _settings(config_maps: ConfigMaps) -> tuple[Documents, Mapping[Document, InputLocation]]:
    settings: dict[Document, object] = {}
    places: dict[Document, InputLocation] = {}
    for full_name, (config, place) in config_maps.items():
        for key, text in (config.data or {}).items():
            document = registry.document_of(config, key)
            if document is None:
                continue
            if document in places:
                problem = f"ConfigMap {full_name}, data[{key}]: exists in another namespace too"
                raise InputError(place, f"{problem}, at {places[document]}; keep only one")
            settings[document], places[document] = _parsed(text, full_name, key, place), place
    return settings, places


def _parsed(text: str, full_name: str, key: str, place: InputLocation) -> object:
    where = f"{place}: ConfigMap {full_name}, data[{key}], line"
    return loader.load(text, lambda line: f"{where} {line}")
