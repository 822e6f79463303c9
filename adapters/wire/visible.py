"""The filter of what the command and the log write: foreign text shows, and does nothing else.

Names, annotations and messages come from all who may write an object. A control character in them
moves the cursor, changes colors or ends a line; a bidirectional one reverses the text around it; a
spreadsheet runs a cell that begins like a formula.
"""

import re

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # noqa: RUF001
_FOREIGN = re.compile(r"[^\n -~]")
_OWN_SPACE = re.compile(r"(\r?\n|\t)")


def visible(text: str) -> str:
    r"""Return a text of one line for people: what is not printable is an escape, as \x1b."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    """Return a text whose line breaks and tabs stay: the user's own file, on a terminal."""
    return "".join(
        part if _OWN_SPACE.fullmatch(part) else visible(part) for part in _OWN_SPACE.split(text)
    )


def visible_cell(text: str) -> str:
    """Return a text for a spreadsheet, which does not take it for a formula."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def escaped(json: str) -> str:
    """Return JSON of the same value in which what is not printable is an escape."""

    def escape(match: re.Match[str]) -> str:
        units = match[0].encode("utf-16-be")
        pairs = (f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
        return match[0] if match[0].isprintable() else "".join(pairs)

    return _FOREIGN.sub(escape, json)
