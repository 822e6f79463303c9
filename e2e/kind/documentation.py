"""The commands of the documentation, as they stand there."""

import re
from textwrap import dedent

from e2e.harness.processes.run import REPOSITORY


def blocks(page: str, heading: str = "") -> list[str]:
    """The blocks of code of a page, or of the section with this heading.

    Raises:
        LookupError: there is no such section, or no code in it.
    """
    text = (REPOSITORY / page).read_text()
    if heading:
        # A single # is a comment in code.
        sections = re.split(r"^##+ ", text, flags=re.MULTILINE)
        text = "".join(each for each in sections if each.partition("\n")[0] == heading)
    found = re.findall(r"^( *)```\w*\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    if not found:
        raise LookupError(f"{page} has no code under {heading!r}")
    return [dedent(code) for _, code in found]


def outputs(block: str) -> list[str]:
    """What a block says that its commands print: its lines of comment."""
    return [line[2:] for line in block.splitlines() if line.startswith("# ")]
