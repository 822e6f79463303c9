"""Command line flags, as all these programs take them."""

from pathlib import Path

Flags = dict[str, str | int | Path]


def words(flags: Flags) -> list[str]:
    """``--name=value`` for each."""
    return [f"--{name}={value}" for name, value in flags.items()]
