"""Whether decisions can be made: what must be known first, and is not known yet."""

LEDGERS = "ledgers"
"""The records of the store."""

RESTART = "a restart, because a task failed"
"""What a process awaits that is about to end: it decides no more."""


class NotReady(RuntimeError):  # noqa: N818 (not a fault: try again soon)
    """The service cannot decide yet; the text names what is awaited."""


class Readiness:
    """The set of what decisions wait for. It begins with the ledgers."""

    def __init__(self) -> None:
        self._awaited = {LEDGERS}

    @property
    def awaited(self) -> frozenset[str]:
        """What decisions wait for, in words for people."""
        return frozenset(self._awaited)

    def mark_synced(self, what: str) -> None:
        """Mark a dependency as synced."""
        self._awaited.discard(what)

    def mark_unsynced(self, what: str) -> None:
        """Decisions wait for this until it is marked as synced."""
        self._awaited.add(what)

    def check(self) -> None:
        """Return if decisions can be made.

        Raises:
            NotReady: something is awaited.
        """
        if self._awaited:
            raise NotReady(self.text())

    def text(self) -> str:
        """Return one line for people, such as ``waiting for: ledgers, pods``; empty when ready."""
        return f"waiting for: {', '.join(sorted(self._awaited))}" if self._awaited else ""
