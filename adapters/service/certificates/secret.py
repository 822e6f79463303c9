"""The Secret of the certificate: the leader rotates its keys, every replica serves it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from adapters.cluster.objects.certificates import SecretClient, texts
from adapters.service.certificates.authority import CertificateError, facts
from adapters.service.certificates.rotation import (
    RotationPolicy,
    advance,
    read_secret,
    served_pair,
    write_secret,
)
from adapters.service.certificates.tls_context import CertificateText
from adapters.service.settings.settings import SettingsError
from adapters.wire.kube import Secret

ROTATE = "dragoman.dev/rotate"
"""Annotation that requests a new authority; its value is not read."""

LONGEST = 20.0
"""Seconds between two checks, at most: the CA bundles may have been overwritten."""


class CertificateRotator:
    """Checks the keys and takes one step of a rotation at a time."""

    def __init__(
        self,
        secrets: SecretClient,
        place: tuple[str, str],
        publish: Callable[[str], Awaitable[bool]],
        policy: RotationPolicy,
        now: Callable[[], int],
        report: Callable[[str, str], None],
    ) -> None:
        """Check nothing yet.

        Args:
            secrets: reads and writes the Secret.
            place: its namespace and name.
            publish: makes the API server trust some authorities and no others, and returns whether
                it trusted them already; raises OSError where a write is not confirmed.
            policy: validity, names and times.
            now: returns seconds since 1970.
            report: called with a log event and a sentence about it.
        """
        self._secrets = secrets
        self._place = place
        self._publish = publish
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
        secret = await self._secrets.get(*self._place)
        keys, forced = read_secret(secret.data), ROTATE in secret.annotations
        published = keys is not None and await self._publish(keys.bundle)
        wanted = advance(keys, self._now(), self._policy, published=published, forced=forced)
        if wanted is keys:
            return False
        begun = wanted.next is not None and (keys is None or keys.next is None)
        fulfilled = {ROTATE: None} if begun else {}
        await self._secrets.change(*self._place, secret.version, write_secret(wanted), fulfilled)
        if keys is None:
            what = "made"
        elif wanted.phase != keys.phase:
            what = "stepped"
        else:
            what = "confirmed" if wanted.leaf == keys.leaf else "renewed"
        self._report(f"certificate.{what}", wanted.phase)
        return keys is None or wanted.bundle != keys.bundle


class ServedCertificate:
    """Serves each new certificate of the Secret; implements ``EventHandler``.

    Attributes:
        ends: end of the present one's validity, in seconds since 1970; 0 while there is none.
    """

    def __init__(
        self, text: CertificateText, ready: Callable[[], None], report: Callable[[str, str], None]
    ) -> None:
        """Serve nothing yet.

        Args:
            text: the TLS context that serves it.
            ready: called when there is a certificate.
            report: called with a log event and a sentence about it.
        """
        self.ends = 0
        self._text = text
        self._ready = ready
        self._report = report
        self._last: object = None

    def on_update(self, thing: Secret) -> None:
        """Serve the certificate of the Secret, if it is valid and new."""
        pair = served_pair(texts(thing))
        if pair is None or pair == self._last:
            return
        try:
            ends = facts(pair.certificate).ends
            self._text.take(pair.certificate, pair.key)
        except (CertificateError, SettingsError) as error:
            self._report("certificate.unusable", str(error))
            return
        self.ends, self._last = ends, pair
        self._report("certificate.taken", thing.metadata.resource_version)
        self._ready()

    def on_delete(self, what: object) -> None:  # noqa: ARG002
        """Keep the last certificate."""
        self._report(
            "certificate.lost", "the Secret was deleted; its last certificate stays in use"
        )

    def on_unreadable(self, what: object, problem: str) -> None:  # noqa: ARG002
        """Keep the last certificate."""
        self._report("certificate.unusable", problem)

    def on_synced(self) -> None:
        """Ignore it: the Secret was listed."""
