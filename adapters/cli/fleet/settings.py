"""What ConfigMaps of the input set for schedulers, and ResourceQuotas for namespaces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.cli.input.document import load_yaml
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.source import InputError, InputLocation
from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, Dialect, DialectError, Document, Documents
from adapters.dialects.host_quota import host_limits
from adapters.wire.kube import ConfigMap
from adapters.wire.resource_quota import KIND, limits_of_extended_resources
from core.quota.amounts import NO_LIMITS, QuotaLimits

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
            settings[document] = _parsed(text, f"{place}: ConfigMap {full_name}, data[{key}]")
            places[document] = place
    return settings, places


def _parsed(text: str, where: str) -> object:
    return load_yaml(text, lambda line: f"{where}, line {line}")


@dataclass(frozen=True, slots=True)
class HostQuotas:
    """What all ResourceQuotas limit.

    Attributes:
        by_namespace: the limits of each namespace that has any.
        problems: with the objects, as sentences.
    """

    by_namespace: Mapping[str, QuotaLimits]
    problems: tuple[str, ...]


def read_host_quotas(manifests: Manifests, dialects: Sequence[Dialect]) -> HostQuotas:
    """Read all ResourceQuotas; the strictest of a namespace holds, and most limit nothing here."""
    limits: dict[str, QuotaLimits] = {}
    problems: list[str] = []
    for thing, place in manifests.resource_quotas:
        namespace = thing.metadata.namespace or "default"
        found = host_limits(limits_of_extended_resources(thing), dialects)
        problems += (
            f"{place}: {KIND} {namespace}/{thing.metadata.name}: {each}" for each in found.problems
        )
        if found.limits != NO_LIMITS:
            limits[namespace] = limits.get(namespace, NO_LIMITS).strictest(found.limits)
    return HostQuotas(limits, tuple(problems))
