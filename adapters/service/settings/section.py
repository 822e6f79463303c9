"""Shared parts of the settings: the base of their sections and the forms of their values."""

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

_PORT = (
    "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"  # 0-65535
)

ADDRESS = rf"^(\[[0-9a-fA-F:]+\]|[^:\s]*):{_PORT}$"
"""``HOST:PORT``, with an IPv6 address in brackets; without a host: every address."""

STORE = r"^(memory|sqlite:.+|kubernetes)$"
GRPC = rf"^(auto|off|unix:.+|\S+:{_PORT})$"

FORMS = {
    ADDRESS: "must be HOST:PORT with a port up to 65535, such as 127.0.0.1:9595",
    STORE: "must be memory, sqlite:PATH or kubernetes",
    GRPC: "must be auto, off, unix:PATH or HOST:PORT",
}
"""What a value of each pattern must be, in words for people."""

SPLIT_AT_COMMAS = BeforeValidator(
    lambda value: [part.strip() for part in value.split(",")] if isinstance(value, str) else value
)
"""Reads a list from the environment, where it is a text with commas."""


class Section(BaseModel):
    """A part of the settings; its keys are camelCase, and an unknown key is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )
