"""Values of a configuration that leave it for its record, and come back.

Schedulers read YAML 1.1, where ``on`` without quotes is true; the library that keeps comments reads
1.2, where it is a word. A value means the same to the scheduler before and after.
"""

from collections.abc import Callable
from typing import Any

import yaml
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, ScalarString

from adapters.cli.input.yaml_text import plain


def recorded(content: Any) -> Any:
    """The content in JSON's types, as YAML 1.1 reads it.

    Args:
        content: as the library that keeps comments has loaded it.
    """
    return plain(_each_word(content, _word_of_1_1, str))


def restored(content: Any) -> Any:
    """Return content with quotes around each word that YAML 1.1 reads as something else.

    Args:
        content: as ``recorded`` returned it.
    """
    return _each_word(content, _quoted_if_needed, _quoted_if_needed)


def _each_word(content: Any, word: Callable[[str], Any], key: Callable[[str], str]) -> Any:
    if isinstance(content, dict):
        return {key(name): _each_word(each, word, key) for name, each in content.items()}
    if isinstance(content, list):
        return [_each_word(each, word, key) for each in content]
    return word(content) if isinstance(content, str) else content


def _word_of_1_1(word: str) -> str | bool:
    read = word if isinstance(word, ScalarString) else _read(word)
    return read if isinstance(read, bool) else word


def _quoted_if_needed(word: str) -> str:
    return word if _read(word) == word else DoubleQuotedScalarString(word)


def _read(word: str) -> Any:
    """What a word without quotes is in a list; None where it cannot be written so.

    ``y`` and ``n`` are booleans for the schedulers. Source: gopkg.in/yaml.v2 2.4.0 resolve.go.
    """
    if word in {"y", "Y", "n", "N"}:
        return word in {"y", "Y"}
    try:
        (read,) = yaml.safe_load(f"[{word}]")
    except (yaml.YAMLError, ValueError):
        return None
    return read
