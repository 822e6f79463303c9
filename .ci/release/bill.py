"""The bill of materials of what a lock installs, as CycloneDX JSON."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement


def locked(lock: Path) -> Iterator[tuple[str, str]]:
    """Name and version of each package that a lock installs on this platform."""
    for line in lock.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            found = Requirement(line.removesuffix("\\").strip())
            (pinned,) = found.specifier
            if found.marker is None or found.marker.evaluate():
                yield found.name, pinned.version


def bill(lock: Path, name: str, version: str, made: datetime) -> str:
    """The bill of a program; the same input gives the same text.

    Args:
        lock: what is installed beside the program.
        name: of the program.
        version: of the program.
        made: the time that it states.
    """
    root = _component(name, version, ComponentType.APPLICATION)
    parts = [_component(*each, ComponentType.LIBRARY) for each in locked(lock)]
    bom = Bom(components=parts, serial_number=uuid5(NAMESPACE_URL, f"{name}@{version}"))
    bom.metadata.timestamp = made
    bom.metadata.component = root
    bom.register_dependency(root, parts)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(name: str, version: str, kind: ComponentType) -> Component:
    purl = PackageURL("pypi", name=name, version=version)
    return Component(name=name, version=version, type=kind, purl=purl, bom_ref=str(purl))
