"""HAMi's device configuration: one file, with a section for each vendor.

Source: HAMi v2.10 charts/hami/templates/scheduler/device-configmap.yaml.
"""

from typing import TypeVar

import msgspec

from adapters.dialects.dialect import DialectError, Document, Documents
from adapters.wire.decode.decoder import UnreadableError, convert

DEVICE_CONFIG: Document = ("hami-scheduler-device", "device-config.yaml")

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
