"""The settings file as a document, and the lines of its keys."""

from collections.abc import Sequence
from pathlib import Path

import yaml


class SettingsFileError(ValueError):
    """A file that is no mapping of settings; the text names file, line and problem."""


class SettingsFile:
    """One YAML file.

    Attributes:
        content: the mapping; empty for an empty file.
    """

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            SettingsFileError: it cannot be read, or is no mapping.
        """
        self._path = path
        try:
            text = path.read_bytes()
            self._root = yaml.compose(text, yaml.SafeLoader)
            document = yaml.safe_load(text)
        except OSError as error:
            raise SettingsFileError(f"{path}: cannot be read: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise SettingsFileError(_not_yaml(path, error)) from error
        if document is not None and not isinstance(document, dict):
            raise SettingsFileError(f"{path}: must be a mapping of settings")
        self.content: dict[str, object] = document or {}

    def place(self, keys: Sequence[int | str]) -> str:
        """``FILE:LINE: `` of a key, by its path; empty where the file does not have it."""
        node, line = self._root, 0
        for key in keys:
            found = _entry(node, key)
            if found is None:
                return ""
            line, node = found
        return f"{self._path}:{line}: " if line else f"{self._path}: "


def _entry(node: yaml.Node | None, key: int | str) -> tuple[int, yaml.Node] | None:
    """The line of a key or an item, and its value."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                return name.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
        value = node.value[key]
        return value.start_mark.line + 1, value
    return None


def _not_yaml(path: Path, error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{path}: is not YAML: {' '.join(str(error).split())}"
    return f"{path}:{error.problem_mark.line + 1}: is not YAML: {error.problem}"
