"""HAMi's device configuration that a service does not read: it has another name or place.

HAMi's chart names the ConfigMap after its release, ``RELEASE-scheduler-device`` or
``RELEASE-hami-scheduler-device``: HAMi v2.10 charts/hami/templates/_helpers.tpl, hami-vgpu.fullname
and hami-vgpu.scheduler. The service may read ConfigMaps by their names alone, so it cannot look for
the label that all of them have.
"""

from collections.abc import Iterator

from adapters.cli.doctor.finding import CheckResult, error
from adapters.cli.doctor.observed import Installation, Observed
from adapters.dialects import registry
from adapters.service.settings.settings import Settings
from adapters.wire.kube import ConfigMap

CHECK = "settings"


def check(seen: Observed) -> Iterator[CheckResult]:
    """The labelled ConfigMaps with a settings file."""
    for config in seen.labelled:
        labels = {f"{key}={value}" for key, value in (config.metadata.labels or {}).items()}
        has_file = any(registry.document_of(config, key) is not None for key in config.data or {})
        if has_file and not labels.isdisjoint(registry.document_labels()):
            for release in seen.releases():
                yield from _unread(config, release)


def _unread(config: ConfigMap, release: Installation) -> Iterator[CheckResult]:
    name, namespace = config.metadata.name, config.metadata.namespace
    fields = Settings.model_fields
    namespaces = release.settings.get("schedulerNamespaces")
    if not isinstance(namespaces, list):
        namespaces = [*fields["scheduler_namespaces"].default]
    remedies: list[str] = []
    if name != release.settings.get("hamiDeviceConfig", fields["hami_device_config"].default):
        remedies.append(f"set service.settings.hamiDeviceConfig to {name}")
    if namespace not in namespaces:
        remedies.append(f"add {namespace} to service.settings.schedulerNamespaces")
    if remedies:
        yield error(
            CHECK,
            f"{release} does not read ConfigMap {namespace}/{name}: the names of HAMi's resources"
            " and their defaults are those of HAMi's chart",
            " and ".join(remedies),
        )
