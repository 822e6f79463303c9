"""How deep a YAML text is nested, found by events, before a parser that takes seconds for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

from adapters.cli.input.source import InputError, InputLocation

DEEPEST = 200
"""Levels; the deepest schema of a CustomResourceDefinition has a quarter of them."""

_NAMED = 6
"""Parts of a path that an error names."""


@dataclass(slots=True)
class _Open:
    """A mapping or list that has begun.

    Attributes:
        name: of the last key, or the number of the last item.
        is_key: whether the next scalar of a mapping is a key.
        items: how many a list has had; None for a mapping.
    """

    name: str = ""
    is_key: bool = True
    items: int | None = None

    def begin(self, text: str) -> None:
        """The next member begins."""
        if self.items is not None:
            self.name, self.items = f"[{self.items}]", self.items + 1
        elif self.is_key:
            self.name, self.is_key = text, False
        else:
            self.is_key = True


def check_depth(text: str, location: Callable[[int], InputLocation | str]) -> None:
    """Check that a text is not nested deeper than ``DEEPEST``; what is no YAML passes.

    Args:
        text: YAML.
        location: of a line of the text, counted from 1, for errors.

    Raises:
        InputError: it is; the error names the field.
    """
    opened: list[_Open] = []
    try:
        for event in _events(text):
            if isinstance(event, yaml.CollectionEndEvent):
                opened.pop()
            elif isinstance(event, yaml.NodeEvent):
                if opened:
                    opened[-1].begin(getattr(event, "value", "?"))
                if isinstance(event, yaml.CollectionStartEvent):
                    is_list = isinstance(event, yaml.SequenceStartEvent)
                    opened.append(_Open(items=0 if is_list else None))
            if len(opened) > DEEPEST:
                problem = (
                    f"is nested more than {DEEPEST} levels deep, and no field of Kubernetes needs"
                    " as many: close the brackets, or remove what opens them again and again"
                )
                line = 1 if event.start_mark is None else event.start_mark.line + 1
                raise InputError(location(line), f"{_path(opened)}: {problem}")
    except yaml.YAMLError:
        return


def _events(text: str) -> "Iterator[yaml.Event]":
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    yield from yaml.parse(text, Loader=loader)


def _path(opened: list[_Open]) -> str:
    parts = [each.name[:60] for each in opened[:_NAMED]]
    return ".".join(parts).replace(".[", "[")
