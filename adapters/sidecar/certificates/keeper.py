"""Whoever has the Lease keeps the Secret and the API server's configurations as they should be."""

import asyncio
from collections.abc import Callable
from typing import NoReturn, Protocol

from adapters.sidecar.certificates import record
from adapters.sidecar.certificates.rotation import CertificateSet, RotationPolicy, advance

LONGEST = 20.0
"""Seconds between two looks, at most: somebody may have put the configurations back."""


class SecretStorage(Protocol):
    """Where the keys are kept."""

    async def read(self) -> tuple[record.Data, str, bool]:
        """Data, version, and whether somebody asks for a new authority.

        Raises:
            OSError: they cannot be had.
        """
        ...

    async def write(self, data: dict[str, str | None], version: str, *, fulfilled: bool) -> None:
        """Change the data.

        Args:
            data: to set; None takes an entry away.
            version: that there must still be.
            fulfilled: whether the wish for a new authority is no more.

        Raises:
            OSError: the version is another one, or there was no good answer.
        """
        ...


class CaBundlePublisher(Protocol):
    """Where the API server learns whom to trust."""

    async def publish(self, bundle: str) -> bool:
        """Have it trust these authorities and no others.

        Returns:
            whether it did already.

        Raises:
            OSError: it could not be told.
        """
        ...


class CertificateRotator:
    """Looks, and takes one step at a time."""

    def __init__(
        self,
        vault: SecretStorage,
        trust: CaBundlePublisher,
        plan: RotationPolicy,
        now: Callable[[], int],
        tell: Callable[[str, str], None],
    ) -> None:
        """Nothing is looked at yet.

        Args:
            vault: where the keys are kept.
            trust: who must know the authorities.
            plan: what is wanted.
            now: seconds since 1970.
            tell: told an event and a text about it.
        """
        self._vault = vault
        self._trust = trust
        self._plan = plan
        self._now = now
        self._tell = tell
        self._problem = ""

    async def run(self) -> NoReturn:
        """Keep until cancelled."""
        pause = min(LONGEST, max(0.5, self._plan.overlap / 3))
        while True:
            try:
                again = await self.look()
                self._problem = ""
            except OSError as error:
                again = False
                if str(error) != self._problem:
                    self._problem = str(error)
                    self._tell("certificate.failed", self._problem)
            if not again:
                await asyncio.sleep(pause)

    async def look(self) -> bool:
        """Look once.

        Returns:
            whether there may be more to do at once.

        Raises:
            OSError: not everything could be looked at, or written.
        """
        data, version, forced = await self._vault.read()
        keys = record.read(data)
        told = keys is not None and await self._trust.publish(keys.bundle)
        wanted = advance(keys, self._now(), self._plan, told=told, forced=forced)
        if wanted is keys:
            return False
        begun = wanted.next is not None and (keys is None or keys.next is None)
        await self._vault.write(record.write(wanted), version, fulfilled=begun)
        self._tell(f"certificate.{_what(keys, wanted)}", wanted.phase)
        return keys is None or wanted.bundle != keys.bundle


def _what(before: CertificateSet | None, after: CertificateSet) -> str:
    if before is None:
        return "made"
    if after.phase != before.phase:
        return "stepped"
    return "confirmed" if after.leaf == before.leaf else "renewed"
