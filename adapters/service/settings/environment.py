"""Settings from environment variables: ``DRAGOMAN_POLICY_NODE`` is ``policy.node``.

pydantic-settings puts the values at their keys. It ignores variables that it does not know; here
they are errors, because a misspelled setting must not start the service with a default.

The kubelet adds variables of its own: for each Service of the pod's namespace its address and
ports, unless the pod has ``enableServiceLinks: false``. Those of a Service ``dragoman`` begin like
our settings and are ignored.
Source: kubernetes/pkg/kubelet/envvars/envvars.go.
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import yaml
from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource


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
    """Return the line of a key or an item, and its value."""
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


PREFIX = "DRAGOMAN_"
"""Prefix of every variable; the key follows in capitals, with ``_`` between its parts."""


class VariableError(ValueError):
    """A variable with our prefix that is neither a setting nor a service link."""


def override(
    document: Mapping[str, object], settings: type[BaseSettings], environment: Mapping[str, str]
) -> dict[str, object]:
    """Return a document of settings with the values of variables in it.

    Args:
        document: as the settings file has it, with camelCase keys.
        settings: the model; its ``model_config`` has the prefix and the delimiter.
        environment: all variables; keys after the prefix are read in any case.

    Raises:
        VariableError: a variable names no setting.
    """
    settable = frozenset(_variables(settings, PREFIX))
    values: dict[str, str | None] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX):
            continue
        if name.upper() in settable:
            values[name.lower()] = value
        elif not is_service_link(name, value):
            raise VariableError(f"{name}: {_remedy(name.upper(), settable)}")
    source = EnvSettingsSource(settings)
    source.env_vars = values
    return _merge(document, source())


def _merge(document: Mapping[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    """Return the document with the overrides in it, section by section."""
    merged = dict(document)
    for key, value in overrides.items():
        section = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = _merge(section if isinstance(section, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _variables(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yield the variable of each value of a model, sections included."""
    for name, field in model.model_fields.items():
        variable = f"{prefix}{field.alias or name}".upper()
        section = _section(field.annotation)
        if section is None:
            yield variable
        else:
            yield from _variables(section, f"{variable}_")


def _section(annotation: object) -> type[BaseModel] | None:
    """Return the model of a field that is a section, such as ``Tls | None``."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None


def _remedy(name: str, settable: frozenset[str]) -> str:
    within = sorted(each for each in settable if each.startswith(f"{name}_"))
    if within:
        return f"is a section of the settings; set one of its values: {', '.join(within)}"
    similar = difflib.get_close_matches(name, sorted(settable)) or sorted(settable)
    return f"there is no such setting; there is {', '.join(similar)}"


_PORT = re.compile(r"[0-9]{1,5}").fullmatch
_PROTOCOL = re.compile(r"tcp|udp|sctp").fullmatch
_URL = re.compile(r"(tcp|udp|sctp)://\S+:[0-9]{1,5}").fullmatch


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


_LINKS: tuple[tuple[re.Pattern[str], Callable[[str], object]], ...] = tuple(
    (re.compile(rf"[A-Z0-9_]+_{ending}"), matches)
    for ending, matches in (
        ("SERVICE_HOST", _is_address),
        ("SERVICE_PORT(_[A-Z0-9_]+)?", _PORT),
        ("PORT(_[0-9]+_(TCP|UDP|SCTP))?", _URL),
        ("PORT_[0-9]+_(TCP|UDP|SCTP)_PROTO", _PROTOCOL),
        ("PORT_[0-9]+_(TCP|UDP|SCTP)_PORT", _PORT),
        ("PORT_[0-9]+_(TCP|UDP|SCTP)_ADDR", _is_address),
    )
)
"""How the name of a service link ends, and the form of its value."""


def is_service_link(name: str, value: str) -> bool:
    """Return whether the kubelet sets such a variable for a Service.

    The form of the value counts too: ``DRAGOMAN_PORT=9595`` is a mistaken setting,
    ``DRAGOMAN_PORT=tcp://10.96.0.7:9595`` is a service link.
    """
    return any(link.fullmatch(name) and matches(value) for link, matches in _LINKS)
