"""Explains a value of the wrong type in a manifest, with its line."""

import re

import msgspec
import yaml

from adapters.cli.input.source import InputError, InputLocation
from adapters.wire.decode import yaml_decoding

# The text of msgspec: "Expected `str`, got `int` - at `$.metadata.labels[...]`", where [...] is any
# value of a mapping, and "`key` in" before the path means one of its keys.
_AT = re.compile(r"(?P<what>.*) - at (?P<key>`key` in )?`\$(?P<path>.*)`")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_TYPES = re.compile(r"Expected `(?P<wanted>.*)`, got `(?P<got>.*)`")
_BOUNDS = re.compile(
    r"Expected `\w+` (?P<length>of length )?(?P<kind>>=|<=|matching regex) (?P<bound>.+)"
)
_MISSING = re.compile(r"Object missing required field `(?P<field>.+)`")
_NOT_LISTED = re.compile(r"Invalid enum value (?P<value>.+)")

_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "a mapping",
}
_TAGS = {"array": "seq", "object": "map"}
_UNQUOTED = frozenset({"int", "float", "bool", "null"})


def validation_error(
    error: msgspec.ValidationError, place: InputLocation, node: yaml.Node | None, above: int = 0
) -> InputError:
    """Translate an error of msgspec into the terms of a manifest.

    Args:
        error: what msgspec raised.
        place: the first line of the manifest.
        node: the manifest as YAML; None where only its beginning is known.
        above: number of lines of the file before the text that ``node`` was read from.
    """
    at = _AT.fullmatch(str(error))
    what, path = (at["what"], at["path"]) if at else (str(error), "")
    types = _TYPES.fullmatch(what)
    got = types["got"] if types else ""
    steps = [step["name"] or step["index"] for step in _STEP.finditer(path)]
    if at and at["key"]:
        steps.append("key")
    line, found = place.line, ""
    for step in steps:
        node, label = _step(node, step, yaml_decoding.TAG + _TAGS.get(got, got))
        found += label
        line = line if node is None else above + node.start_mark.line + 1
    what = _sentence(types["wanted"], got) if types else _of_value(what, node)
    return InputError(
        InputLocation(place.file, line), f"{found.lstrip('.') or 'the manifest'} {what}"
    )


def _sentence(wanted: str, got: str) -> str:
    words = " or ".join(dict.fromkeys(_WORDS.get(word, word) for word in wanted.split(" | ")))
    quotes = "; put it in quotes" if wanted == "str" and got in _UNQUOTED else ""
    return f"must be {words}, but is {_WORDS.get(got, got)}{quotes}"


def _of_value(what: str, node: yaml.Node | None) -> str:
    """The sentence for a value of the right type that it cannot have."""
    bounds, missing, listed = (form.fullmatch(what) for form in (_BOUNDS, _MISSING, _NOT_LISTED))
    if missing:
        return f"misses the field {missing['field']}"
    if listed:
        return f"cannot be {listed['value']}"
    if bounds is None:
        return what
    bound, unit = bounds["bound"], " long" if bounds["length"] else ""
    right = {
        ">=": f"at least {bound}{unit}",
        "<=": f"at most {bound}{unit}",
        "matching regex": f"text that matches {bound}",
    }
    found = f", but is {node.value!r}" if isinstance(node, yaml.ScalarNode) else ""
    return f"must be {right[bounds['kind']]}{found}"


def _step(node: yaml.Node | None, step: str, tag: str) -> tuple[yaml.Node | None, str]:
    if step.isdigit():
        inside = node.value[int(step)] if isinstance(node, yaml.SequenceNode) else None
        return inside, f"[{step}]"
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if step == key.value:
            return value, f".{step}"
        if (step == "..." and value.tag == tag) or (step == "key" and key.tag == tag):
            return value, f"[{key.value}]"
    return None, f"[{step}]" if step in {"...", "key"} else f".{step}"
