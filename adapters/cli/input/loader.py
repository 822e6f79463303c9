"""Loads a YAML text of the input, with the location of what is wrong with it."""

from collections.abc import Callable

import yaml

from adapters.cli.input.limits import check_yaml
from adapters.cli.input.source import InputError, InputLocation
from adapters.wire.decode.yaml_decoding import FAILURES, Loader, explain


def load(text: str, location: Callable[[int], InputLocation | str]) -> object:
    """The content of a text that is one document.

    Args:
        text: YAML.
        location: of a line of the text, counted from 1, for errors.

    Raises:
        InputError: the text is not YAML, or exceeds a limit.
    """
    check_yaml(text, location)
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a safe loader
    except FAILURES as error:
        line, problem = explain(error, text)
        raise InputError(location(line), problem) from error
