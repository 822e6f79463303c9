"""Ids of shares of a device."""

import hashlib


def share_id(text: str) -> str:
    """The id that follows from a text: a UUID of version 8 (RFC 9562), as the API demands one."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
