"""Rotates the certificate in the Secret and its CA bundles; runs in the elected leader only."""

import asyncio
from collections.abc import Callable
from typing import NoReturn, Protocol

from adapters.service.certificates import record
from adapters.service.certificates.rotation import CertificateSet, RotationPolicy, advance

LONGEST = 20.0
"""Seconds between two checks, at most: the CA bundles may have been overwritten."""


class SecretStorage(Protocol):
    """Stores the keys."""

    async def read(self) -> tuple[record.Data, str, bool]:
        """Return data, version, and whether a new authority was requested.

        Raises:
            OSError: they could not be read.
        """
        ...

    async def write(self, data: dict[str, str | None], version: str, *, fulfilled: bool) -> None:
        """Change the data.

        Args:
            data: to set; None removes an entry.
            version: the version that was read; the write fails if it has changed.
            fulfilled: whether to remove the request for a new authority.

        Raises:
            OSError: the version has changed, or the API server did not confirm the write.
        """
        ...


class CaBundlePublisher(Protocol):
    """Publishes the authorities that the API server trusts."""

    async def publish(self, bundle: str) -> bool:
        """Make the API server trust these authorities and no others.

        Returns:
            whether it trusted them already.

        Raises:
            OSError: the API server did not confirm the write.
        """
        ...


class CertificateRotator:
    """Checks the keys and takes one step of a rotation at a time."""

    def __init__(
        self,
        storage: SecretStorage,
        publisher: CaBundlePublisher,
        policy: RotationPolicy,
        now: Callable[[], int],
        report: Callable[[str, str], None],
    ) -> None:
        """Check nothing yet.

        Args:
            storage: of the keys.
            publisher: of the authorities.
            policy: validity, names and times.
            now: returns seconds since 1970.
            report: called with a log event and a sentence about it.
        """
        self._storage = storage
        self._publisher = publisher
        self._policy = policy
        self._now = now
        self._report = report
        self._problem = ""

    async def run(self) -> NoReturn:
        """Check and rotate until cancelled."""
        pause = min(LONGEST, max(0.5, self._policy.overlap / 3))
        while True:
            try:
                again = await self.step()
                self._problem = ""
            except OSError as error:
                again = False
                if str(error) != self._problem:
                    self._problem = str(error)
                    self._report("certificate.failed", self._problem)
            if not again:
                await asyncio.sleep(pause)

    async def step(self) -> bool:
        """Check once, and take the next step if it is due.

        Returns:
            whether the next step may be due at once.

        Raises:
            OSError: keys or CA bundles could not be read or written.
        """
        data, version, forced = await self._storage.read()
        keys = record.read(data)
        published = keys is not None and await self._publisher.publish(keys.bundle)
        wanted = advance(keys, self._now(), self._policy, published=published, forced=forced)
        if wanted is keys:
            return False
        begun = wanted.next is not None and (keys is None or keys.next is None)
        await self._storage.write(record.write(wanted), version, fulfilled=begun)
        self._report(f"certificate.{_what(keys, wanted)}", wanted.phase)
        return keys is None or wanted.bundle != keys.bundle


def _what(before: CertificateSet | None, after: CertificateSet) -> str:
    if before is None:
        return "made"
    if after.phase != before.phase:
        return "stepped"
    return "confirmed" if after.leaf == before.leaf else "renewed"
