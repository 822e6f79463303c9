"""Shared parts of the settings: the base of their sections and the forms of their values."""

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

ADDRESS = r"^(\[[0-9a-fA-F:]+\]|[^:\s]*):[0-9]{1,5}$"
"""``HOST:PORT``, with an IPv6 address in brackets; without a host: every address."""

SPLIT_AT_COMMAS = BeforeValidator(
    lambda value: [part.strip() for part in value.split(",")] if isinstance(value, str) else value
)
"""In the environment a list is a text with commas."""


class Section(BaseModel):
    """A part of the settings; its keys are camelCase, and an unknown key is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )
