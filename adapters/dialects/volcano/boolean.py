"""Truth as Go reads it."""

# strconv.ParseBool
_WORDS = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


def parse_bool(text: str) -> bool | None:
    """What a word says; None where it says neither."""
    return _WORDS.get(text)
