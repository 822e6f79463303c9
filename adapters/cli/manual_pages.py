"""Manual pages of all commands, from the texts of their help. Source of the format: man(7)."""

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import typer
from typer.core import TyperGroup

NAME = "dragoman"

_WIDE: dict[str, Any] = {"terminal_width": 1000, "max_content_width": 1000}
"""Columns of the help that a page is made of, so that no text of it is cut off."""

_OPTION = re.compile(r"^  (?P<names>\S.*?)(?:\s{2,}(?P<text>.*))?$")


def pages(program: Any) -> dict[str, str]:
    """The pages by file name: one of the program, and one of each command.

    Args:
        program: the command with all others, as typer makes it.
    """
    commands = program.commands if isinstance(program, TyperGroup) else {}
    root = typer.Context(program, info_name=NAME, **_WIDE, **program.context_settings)
    found = {f"{NAME}.1": _page(NAME, root, sorted(commands))}
    for name, each in sorted(commands.items()):
        context = typer.Context(each, info_name=name, parent=root, **_WIDE)
        found[f"{NAME}-{name}.1"] = _page(f"{NAME} {name}", context, ())
    return found


def _page(path: str, context: typer.Context, others: Sequence[str]) -> str:
    return "\n".join(_lines(path, context, others)) + "\n"


def _lines(path: str, context: typer.Context, others: Sequence[str]) -> Iterator[str]:
    usage, _, rest = context.get_help().partition("\n")
    body, *sections = re.split(r"^(Arguments|Options|Commands):$", rest, flags=re.MULTILINE)
    paragraphs = [" ".join(each.split()) for each in body.split("\n\n") if each.strip()]
    file = path.replace(" ", "-")
    yield f'.TH "{file.upper()}" "1" "" "Dragoman {version("dragoman")}" "Dragoman"'
    yield from (".SH NAME", f"{_text(file)} \\- {_text(paragraphs[0].rstrip('.'))}")
    yield from (".SH SYNOPSIS", _text(usage.removeprefix("Usage: ")))
    yield ".SH DESCRIPTION"
    for paragraph in paragraphs:
        if not paragraph.startswith(("Example:", "Exit status:")):
            yield from (".PP", _text(paragraph))
    for title, entries in zip(sections[::2], sections[1::2], strict=True):
        yield f".SH {title.upper()}"
        for names, text in _entries(entries):
            yield from (".TP", f".B {_text(names)}", _text(text))
    for paragraph in paragraphs:
        if paragraph.startswith(("Example:", "Exit status:")):
            title, _, text = paragraph.partition(":")
            yield from (f".SH {title.upper()}", _text(text.strip()))
    see = [f"{NAME}-{name}" for name in others] or [NAME]
    yield from (".SH SEE ALSO", ", ".join(f"{_text(each)}(1)" for each in see))


def _entries(section: str) -> Iterator[tuple[str, str]]:
    """Names and text of each argument, option or command of a section of the help."""
    names, words = "", list[str]()
    for line in filter(str.strip, section.splitlines()):
        found = None if line.startswith("   ") else _OPTION.match(line)
        if found is None:
            words.append(line.strip())
            continue
        if names:
            yield names, " ".join(words)
        names, words = found["names"], [found["text"] or ""]
    if names:
        yield names, " ".join(words).strip()


def _text(text: str) -> str:
    """Text for roff: hyphens stay hyphens, and no line is taken for a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
