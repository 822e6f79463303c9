"""Booleans as Go parses them."""

# strconv.ParseBool
_WORDS = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


def parse_bool(text: str) -> bool | None:
    """Parse a boolean; None where the text is not one."""
    return _WORDS.get(text)
