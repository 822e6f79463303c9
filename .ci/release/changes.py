"""The changes of one version, from CHANGELOG.md."""

import re
from pathlib import Path

_SECTION = re.compile(
    r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE
)


class ChangesError(ValueError):
    """CHANGELOG.md has no section for the version."""


def changes(file: Path, version: str) -> str:
    """The section of a version without its headline.

    Raises:
        ChangesError: there is none, or it has no date.
    """
    text = file.read_text()
    sections = [*_SECTION.finditer(text)]
    for number, found in enumerate(sections):
        if found["version"] == version:
            if found["date"] is None:
                raise ChangesError(f"{file.name}: [{version}] needs a date: - YYYY-MM-DD")
            end = sections[number + 1].start() if number + 1 < len(sections) else len(text)
            return text[found.end() : end].strip() + "\n"
    raise ChangesError(f"{file.name} has no section [{version}] - YYYY-MM-DD")
