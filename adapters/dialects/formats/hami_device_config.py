"""HAMi's device configuration: one file, with a section for each vendor.

Source: HAMi v2.10 charts/hami/templates/scheduler/device-configmap.yaml. Its name there is that of
the release with ``-scheduler-device`` (``_helpers.tpl``, hami-vgpu.fullname), and its labels are
the same in each release. ``nodeconfig`` of the device plugin's own ConfigMap is read by the plugin
alone (pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go:134), which states the outcome in
the annotation of its node.
"""

from typing import TypeVar

import msgspec

from adapters.dialects.dialect import DialectError, Document, Documents
from adapters.wire.decode.decoder import UnreadableError, convert

DEVICE_CONFIG: Document = ("hami-scheduler-device", "device-config.yaml")

DEVICE_CONFIG_LABEL = "app.kubernetes.io/component=hami-scheduler"
"""The label of the ConfigMap, whatever the name of the release."""

_File = TypeVar("_File", bound=msgspec.Struct)


def read_device_config(settings: Documents, section: str, to: type[_File]) -> _File:
    """Read the file, as far as a dialect needs it.

    Args:
        settings: the settings files; without this one it counts as empty.
        section: of the dialect, for errors.
        to: the file with this section, whose fields have defaults.

    Raises:
        DialectError: the file has an invalid value.
    """
    found = settings.get(DEVICE_CONFIG)
    try:
        return convert({} if found is None else found, to)
    except UnreadableError as error:
        raise DialectError(section_path(section), found, str(error)) from None


def section_path(section: str) -> str:
    """The place of a section, for errors."""
    name, key = DEVICE_CONFIG
    return f"ConfigMap {name}, key {key}, {section}"
